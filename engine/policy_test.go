package engine

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/stretchr/testify/require"
)

// With a quota of less than one core the engine sleeps, whatever policy is asked for, and the
// log says so.
func TestQuotaBelowACore(t *testing.T) {
	for _, want := range []object.Idle{object.IdleNap, object.IdleSpin, object.IdleMonitor} {
		var log bytes.Buffer
		j := journal.New(slog.New(slog.NewTextHandler(&log, nil)))
		require.Equal(t, object.IdleNap, loop.IdlePolicy(want, true, 0.5, j))
		j.Flush(time.Minute)
		require.Contains(t, log.String(), "cores=0.50")
		require.Equal(t, want, loop.IdlePolicy(want, true, 1, j))
	}
}
