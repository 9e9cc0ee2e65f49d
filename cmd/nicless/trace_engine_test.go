//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// serveEngine runs an engine, and returns its socket and the function that stops it.
func serveEngine(t *testing.T) (socket string, stop func()) {
	socket = filepath.Join(t.TempDir(), "engine")
	return socket, enginetest.Run(t, socket, nicless.Config{})
}

// engineTrace returns a file with the trace of an engine while a client used it.
func engineTrace(t *testing.T, use func(c *nicless.Context)) string {
	socket, stop := serveEngine(t)
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
		require.NoError(t, w.Next(await.Context(t), &event))
		if event.Kind == trace.KindClientGone {
			gone++
		}
		require.NoError(t, out.Write(&event))
	}
	require.NoError(t, out.Close(event.Time, false))
	require.NoError(t, w.Close())
	require.NoError(t, watcher.Close())
	stop()
	name := filepath.Join(t.TempDir(), "engine.nictrace")
	require.NoError(t, os.WriteFile(name, b.Bytes(), 0o644))
	return name
}

// The events that an engine records are shown in all forms.
func TestTraceOfEngine(t *testing.T) {
	name := engineTrace(t, func(c *nicless.Context) {
		x := enginetest.On(t, c, 1<<20, nicless.CQConfig{})
		done := make([]nicless.Completion, 1)
		wait := func(n int) {
			for range n {
				_, err := x.CQ.Wait(await.Context(t), done)
				require.NoError(t, err)
			}
		}
		post := func(op nicless.Op, n int) {
			wr := x.Write(n)
			wr.Op = op
			require.NoError(t, x.A.PostSend(wr))
		}
		post(nicless.Write, 10_000)
		wait(1)
		post(nicless.Read, 100_000)
		wait(1)
		post(nicless.FetchAdd, 8)
		wait(1)
		require.NoError(t, x.B.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{x.MR.SGE(1<<18, 4096)}}))
		post(nicless.SendImm, 100)
		wait(2)
		wrong := x.Write(8)
		wrong.RemoteAddr += 1 << 30
		require.NoError(t, x.A.PostSend(wrong))
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

// nicless trace records an engine until that stops, and shows at once what has happened.
func TestTraceLive(t *testing.T) {
	socket, stop := serveEngine(t)
	dir := t.TempDir()
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	statuses := make(chan int, 3)
	outputs := []string{"all.nictrace", "all.txt", "all.pcapng"}
	for _, name := range outputs {
		go func() {
			statuses <- run([]string{"trace", "--all", "--engine", socket, "--utc", "-o", filepath.Join(dir, name)},
				strings.NewReader(""), os.Stderr, os.Stderr)
		}()
	}
	for _, name := range outputs { // each has a header, or the clients
		await.Until(t, name+" begins", func() bool { return size(name) > 0 })
	}
	c := enginetest.Dial(t, socket, nicless.CQConfig{})
	require.NoError(t, c.A.PostSend(c.Write(64)))
	_, err := c.CQ.Wait(await.Context(t), make([]nicless.Completion, 1))
	require.NoError(t, err)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	await.Until(t, "the WRITE is shown", func() bool {
		return strings.Contains(read("all.txt"), "executed: RDMA_WRITE, 64 bytes\n") &&
			strings.Contains(read("all.pcapng"), "done in memory, not sent: qp 0x")
	})
	require.NoError(t, c.Close())
	stop()
	for range outputs {
		require.Zero(t, <-statuses)
	}
	require.Contains(t, read("all.txt"), "because the engine has stopped\n")
	status, out, errs := shown(t, filepath.Join(dir, "all.nictrace"), "--utc")
	require.Zero(t, status, errs)
	require.Contains(t, out, "executed: RDMA_WRITE, 64 bytes\n")
	require.Contains(t, out, "because the engine has stopped\n")
}

// A watch that the engine refuses, and an engine that is not there, are errors.
func TestTraceLiveRefused(t *testing.T) {
	socket, stop := serveEngine(t)
	defer stop()
	for flag, want := range map[string]string{"--qp=7": "there is no QP 0x000007", "--qp=x": `--qp "x" is not a number`,
		"--client=4294967295": "process 4294967295 does not exist"} {
		var out, errs strings.Builder
		require.NotZero(t, run([]string{"trace", flag, "--engine", socket}, strings.NewReader(""), &out, &errs))
		require.Contains(t, errs.String(), want)
		require.Empty(t, out.String())
	}
	var out, errs strings.Builder
	require.Equal(t, 1, run([]string{"trace", "--all", "--engine", socket + "x"}, strings.NewReader(""), &out, &errs))
	require.Contains(t, errs.String(), "hint: nicless run --trace FILE -- PROGRAM traces a program")
}

// A trace without events ends at the moment that its clock knows, not at tick 0 of the device.
func TestTraceWithoutEvents(t *testing.T) {
	socket, stop := serveEngine(t)
	defer stop()
	ctx, cancel := context.WithCancel(await.Context(t))
	cancel()
	in, err := openWatch(ctx, socket, &eventChoice{program: "nobody"})
	require.NoError(t, err)
	defer in.Close()
	in.eventSource.(*watchSource).onIdle(func() error { return nil })
	var e trace.Event
	require.NoError(t, in.Next(&e))
	require.Equal(t, trace.KindEnd, e.Kind)
	require.Zero(t, e.Value)
	require.NotZero(t, e.Time)
	require.Equal(t, in.Clock().Ticks, e.Time)
}

// A terminal that is closed (SIGHUP) ends a record as an interrupt does: the file is whole.
func TestTraceEndsAtHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as under nohup")
	}
	socket, stop := serveEngine(t)
	defer stop()
	name := filepath.Join(t.TempDir(), "all.nictrace")
	status := make(chan int)
	var errs strings.Builder
	go func() {
		status <- run([]string{"trace", "--all", "--engine", socket, "-o", name}, strings.NewReader(""), os.Stderr, &errs)
	}()
	await.Until(t, "the record begins", func() bool {
		info, err := os.Stat(name)
		return err == nil && info.Size() > 0
	})
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	require.Zero(t, <-status)
	require.Equal(t, "nicless: note: "+name+": 0 events\n", errs.String())
	code, out, _ := shown(t, name)
	require.Zero(t, code)
	require.Contains(t, out, "trace ends after 0 events\n")
}
