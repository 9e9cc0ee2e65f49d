package engine

import (
	"bytes"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/cgroup"
	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// On a processor that cannot wait for a write to a cache line, the engine spins. The log
// names the processor and the feature that it lacks.
func TestMonitorWithoutWaitPKG(t *testing.T) {
	var log bytes.Buffer
	j := journal.New(slog.New(slog.NewTextHandler(&log, nil)))
	require.Equal(t, object.IdleMonitor, loop.IdlePolicy(object.IdleMonitor, true, 2, j))
	require.Equal(t, object.IdleNap, loop.IdlePolicy(object.IdleNap, false, 1, j))
	j.Flush(time.Minute)
	require.Empty(t, log.String())
	require.Equal(t, object.IdleSpin, loop.IdlePolicy(object.IdleMonitor, false, 1, j))
	j.Flush(time.Minute)
	require.Contains(t, log.String(), "WAITPKG")
	require.Contains(t, log.String(), cpu.Name())

	if cgroup.CPUQuota(os.DirFS("/")) < 1 {
		t.Skip("a CPU quota")
	}
	e, err := New(Config{Idle: IdleMonitor})
	require.NoError(t, err)
	require.Equal(t, cpu.CanMonitor(), e.runner.Settings.Idle == object.IdleMonitor)
}

// A resting device finds work of the queue that it watches, work of other queues, and
// requests. It watches the queue that worked last.
func TestDozing(t *testing.T) {
	r, p, q := duo(t, Config{})
	r.e.Settings.Idle = object.IdleMonitor // even if this processor has no WAITPKG
	require.Zero(t, r.e.MonitorWait())
	for _, x := range []*end{p, q, p} {
		x.post(ctrl(wqe.OpNop))
		require.Positive(t, r.e.MonitorWait())
		require.Equal(t, cqe.StatusSuccess, x.scq.await().Status)
		require.Zero(t, r.e.MonitorWait())
		require.Same(t, x.q, r.e.Latest())
	}
	r.start()
	for range 100 {
		for _, x := range []*end{p, q} {
			x.post(ctrl(wqe.OpNop))
			require.Equal(t, cqe.StatusSuccess, x.scq.await().Status)
		}
		r.e.Do(func() {})
	}
}
