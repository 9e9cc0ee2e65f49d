package torture

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/stretchr/testify/require"
)

// serve runs an engine in this process and returns its socket and its log.
func serve(t *testing.T) (socket string, log *logMeter) {
	log = new(logMeter)
	socket = filepath.Join(t.TempDir(), "engine")
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- nicless.Serve(ctx, socket, 0o600, nicless.Config{Log: log.logger()}, func() { close(ready) })
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	<-ready
	return socket, log
}

func newVisitor(t *testing.T, socket string) *visitor {
	b, err := newBoard()
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.mem.Close() })
	b.setEngine(os.Getpid())
	spec := Spec{Role: roleVisitor, Socket: socket}
	witness := verdict.NewWitness(2, b.engines)
	t.Cleanup(witness.Close)
	v := &visitor{waitMeter: &waitMeter{board: b, slot: spec.slot(), Witness: witness}, w: &wire{out: json.NewEncoder(io.Discard)}, spec: spec}
	v.count.ByOp = make(map[string]uint64)
	t.Cleanup(v.leave)
	return v
}

// A visitor moves data, and its half-open queue pairs receive nothing.
func TestVisitorIsServed(t *testing.T) {
	socket, _ := serve(t)
	v := newVisitor(t, socket)
	for range 3 {
		require.NoError(t, v.visit())
	}
	require.EqualValues(t, 3*visitWrites, v.count.Operations)
	require.Len(t, v.halfOpen, 3*halfOpenEach)
}

// The visitor detects a half-open queue pair that receives something.
func TestHalfOpenReceiveNothing(t *testing.T) {
	socket, _ := serve(t)
	v := newVisitor(t, socket)
	require.NoError(t, v.createHalfOpenSet())
	cq, err := v.ctx.CreateCQ(nicless.CQConfig{})
	require.NoError(t, err)
	for kind := range halfOpenKinds {
		peer, err := v.makeHalfOpen(v.pd, cq)
		require.NoError(t, err)
		require.EqualValues(t, kind, v.halfOpen[kind].Type)
		require.NoError(t, v.watch())
		require.NoError(t, peer.PostSend(&nicless.SendWR{Op: nicless.Send, Flags: nicless.Signaled, Data: []byte("x")}))
		var list [1]nicless.Completion
		n, err := waitFor(cq, list[:], hangTime)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, list[0].Err())
		require.ErrorContains(t, v.watch(), "has received 1 bytes")
		poisonAll(v.mr.Bytes())
	}
}
