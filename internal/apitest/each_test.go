package apitest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// each runs a test with an embedded engine and with an engine behind a socket.
func each(t *testing.T, f func(t *testing.T, ctx *nicless.Context)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		ctx, err := nicless.Open(nicless.Config{})
		require.NoError(t, err)
		defer ctx.Close()
		f(t, ctx)
	})
	t.Run("socket", func(t *testing.T) {
		path, _ := serve(t)
		ctx, err := nicless.Dial(path)
		require.NoError(t, err)
		defer ctx.Close()
		f(t, ctx)
	})
}

// serve runs an engine for other contexts until stop or the end of the test.
func serve(t *testing.T) (path string, stop func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- nicless.Serve(ctx, path, 0o600, nicless.Config{}, func() { close(ready) }) }()
	<-ready
	done := false
	stop = func() {
		if !done {
			done = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return path, stop
}

// do posts a signaled work request to q and returns its completion.
func (b *bench) do(t testing.TB, q *nicless.QP, wr nicless.SendWR) nicless.Completion {
	t.Helper()
	wr.Flags |= nicless.Signaled
	require.NoError(t, q.PostSend(&wr))
	for {
		c := b.await(t, 1)[0]
		if c.Requester() {
			return c
		}
	}
}

// ok does the same as do, for a request that must succeed.
func (b *bench) ok(t testing.TB, q *nicless.QP, wr nicless.SendWR) nicless.Completion {
	t.Helper()
	c := b.do(t, q, wr)
	require.NoError(t, c.Err())
	return c
}

// event returns the next event that is not an explanation.
func event(t testing.TB, ctx *nicless.Context) nicless.Event {
	t.Helper()
	for {
		ev, err := ctx.NextEvent(t.Context())
		require.NoError(t, err)
		if ev.Kind != nicless.EventExplanation {
			return ev
		}
	}
}
