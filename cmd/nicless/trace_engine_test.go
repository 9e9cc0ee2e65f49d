//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/server"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// engineTrace returns a file with the trace of what an engine did while a client used it.
func engineTrace(t *testing.T, use func(c *nicless.Context)) string {
	socket := filepath.Join(t.TempDir(), "engine")
	e, err := engine.New(engine.Config{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(await.Context(t))
	ended := make(chan error, 2)
	started := make(chan struct{})
	go func() { ended <- e.Run(ctx, func() { close(started) }) }()
	<-started
	l, err := server.Listen(e, socket, 0o600)
	require.NoError(t, err)
	go func() { ended <- l.Serve(ctx) }()
	watcher, err := nicless.Dial(socket)
	require.NoError(t, err)
	w, err := watcher.Watch(nicless.WatchFilter{All: true})
	require.NoError(t, err)
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	use(c)
	require.NoError(t, c.Close())

	var b bytes.Buffer
	out, err := trace.NewWriter(&b, w.Clock())
	require.NoError(t, err)
	var event trace.Event
	gone := 0
	for gone < 1 { // the client's end is the last event
		require.NoError(t, w.Next(ctx, &event))
		if event.Kind == trace.KindClientGone {
			gone++
		}
		require.NoError(t, out.Write(&event))
	}
	require.NoError(t, out.Close(event.Time, false))
	require.NoError(t, w.Close())
	require.NoError(t, watcher.Close())
	stop()
	require.NoError(t, errors.Join(<-ended, <-ended))
	name := filepath.Join(t.TempDir(), "engine.nictrace")
	require.NoError(t, os.WriteFile(name, b.Bytes(), 0o644))
	return name
}

// The events that an engine records are shown in all forms.
func TestTraceOfEngine(t *testing.T) {
	name := engineTrace(t, func(c *nicless.Context) {
		pd, err := c.AllocPD()
		require.NoError(t, err)
		mr, err := pd.RegisterMemory(1<<20, nicless.FullAccess)
		require.NoError(t, err)
		cq, err := c.CreateCQ(nicless.CQConfig{})
		require.NoError(t, err)
		a, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
		require.NoError(t, err)
		b, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
		require.NoError(t, err)
		require.NoError(t, nicless.Pair(a, b, nicless.Connection{}))
		done := make([]nicless.Completion, 1)
		wait := func(n int) {
			for range n {
				_, err := cq.Wait(await.Context(t), done)
				require.NoError(t, err)
			}
		}
		post := func(op nicless.Op, n int) {
			require.NoError(t, a.PostSend(&nicless.SendWR{Op: op, Flags: nicless.Signaled,
				SGE: []nicless.SGE{mr.SGE(0, n)}, RemoteAddr: mr.Addr() + 1<<19, RKey: mr.RKey()}))
		}
		post(nicless.Write, 10_000)
		wait(1)
		post(nicless.Read, 100_000)
		wait(1)
		post(nicless.FetchAdd, 8)
		wait(1)
		require.NoError(t, b.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{mr.SGE(1<<18, 4096)}}))
		post(nicless.SendImm, 100)
		wait(2)
		require.NoError(t, a.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
			SGE: []nicless.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 1<<30, RKey: mr.RKey()}))
		wait(1)
	})
	program, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	status, out, errs := shown(t, name, "--program", strings.TrimSpace(string(program)))
	require.Zero(t, status, errs)
	require.Empty(t, errs)
	for _, want := range []string{"fetched: RDMA_WRITE raddr 0x", "executed: RDMA_WRITE, 10000 bytes", "executed: RDMA_READ, 100000 bytes",
		"ATOMIC_FA", "SEND_IMM", "SUCCESS RECV, 100 bytes, imm 0x", "failed: RDMA_WRITE, REM_ACCESS_ERR", "explained: ",
		"completed: REM_ACCESS_ERR", "RTS -> ERR"} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "does not know")
	for _, f := range formNames() {
		status, out, errs := shown(t, name, "--format", f)
		require.Zero(t, status, "%s: %s", f, errs)
		require.NotEmpty(t, out)
	}
	_, packets, _ := shown(t, name, "--format", "pcapng")
	require.Contains(t, packets, "done in memory, not sent: qp 0x")
	status, out, errs = shown(t, name, "--format", "lines")
	require.Zero(t, status, errs)
	var priced, e strings.Builder
	require.Zero(t, run([]string{"model", "--trace", "-", "--preset", "cxl1-fpga"}, strings.NewReader(out), &priced, &e), e.String())
}
