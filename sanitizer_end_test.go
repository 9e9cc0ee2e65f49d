//go:build linux && (amd64 || arm64)

package nicless

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/sanitize"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each context has reports of what it has a part in: of a race between two, both have one, with both stacks.
func TestSanitizersOfTwoContexts(t *testing.T) {
	path := inProcess(t, Config{})
	x := newSuspect(t, dialed(t, path), SanitizerConfig{})
	y := newSuspect(t, dialed(t, path), SanitizerConfig{})
	q, err := y.pd.CreateQP(QPConfig{SendCQ: y.cq})
	require.NoError(t, err)
	own, err := x.pd.CreateQP(QPConfig{SendCQ: x.cq})
	require.NoError(t, err)
	require.NoError(t, Pair(q, own, Connection{}))

	writeFirst(x)
	x.passes() // the device has found them
	wr := y.wr(Write, broughtAt, 0)
	wr.RemoteAddr, wr.RKey = x.far.Addr()+otherAt+32, x.far.RKey()
	y.post(q, y.wr(Send, sentAt, 0), wr)
	y.passes()
	x.passes()
	x.give(x.a[1], inboxAt)
	x.give(own, inboxAt+wrSize)
	x.take(4)
	y.take(2)
	destroy(y, true)

	inX, inY := x.reports(), y.reports()
	require.Len(t, inX, 1, "%v", inX)
	require.Len(t, inY, 2, "%v", inY)
	for _, r := range []*sanitize.Report{&inX[0], &inY[0]} {
		require.Equal(t, sanitize.Race, r.Code)
		requireStack(t, r, 0, "TestSanitizersOfTwoContexts")
		requireStack(t, r, 1, "writeFirst")
	}
	require.Equal(t, sanitize.DestroyedInFlight, inY[1].Code)
}

// A context has one Sanitizer at a time, and after its Close another one. Queues that note stacks go on.
func TestSanitizerAgain(t *testing.T) {
	x := newSuspect(t, dialed(t, inProcess(t, Config{})), SanitizerConfig{})
	_, err := x.c.Sanitize(SanitizerConfig{})
	require.ErrorContains(t, err, "a context has one Sanitizer")
	destroy(x, true)
	require.NoError(t, x.s.Close())
	require.NoError(t, x.s.Close())
	require.Len(t, x.s.Reports(), 1)

	destroy(x, true) // nobody looks
	x.s, err = x.c.Sanitize(SanitizerConfig{Report: func(*sanitize.Report) {}})
	require.NoError(t, err)
	changeSendBuffer(x, true)
	list := x.reports()
	require.Len(t, list, 1, "%v", list)
	requireStack(t, &list[0], 0, "changeSendBuffer")
	require.NotContains(t, sanitizers.list, x.s)

	_, err = x.c.Sanitize(SanitizerConfig{})
	require.ErrorIs(t, err, ErrClosed)
	_, err = new(Context).Sanitize(SanitizerConfig{})
	require.ErrorIs(t, err, ErrClosed)
}

// Context and Sanitizer are closed while goroutines post and poll.
func TestSanitizerCloseWhilePosting(t *testing.T) {
	onDevices(t, func(t *testing.T, c *Context) {
		x := newSuspect(t, c, SanitizerConfig{})
		var posting, posts sync.WaitGroup
		posts.Add(2)
		for i := range 2 {
			cq, err := c.CreateCQ(CQConfig{Entries: 64})
			require.NoError(t, err)
			q, wr := x.pair(cq)[0], x.wr(Write, otherAt*i, otherAt*(i+1))
			posting.Go(func() { assert.ErrorIs(t, postAndPoll(q, cq, &wr, posts.Done), ErrClosed) })
		}
		posts.Wait()
		var closing sync.WaitGroup
		closing.Go(func() { assert.NoError(t, x.s.Close()) })
		closing.Go(func() { assert.NoError(t, x.c.Close()) })
		closing.Wait()
		posting.Wait()
		require.Empty(t, x.s.Reports())
	})
}

// postAndPoll posts and polls until there is an error. It calls begun when some posts have completed.
func postAndPoll(q *QP, cq *CQ, wr *SendWR, begun func()) error {
	var c [8]Completion
	for done := 0; ; {
		if err := q.PostSend(wr); err != nil && !errors.Is(err, ErrFull) {
			return err
		}
		n, err := cq.Poll(c[:])
		if err != nil {
			return err
		}
		if done < len(c) && done+n >= len(c) {
			begun()
		}
		done += n
	}
}

// The engine ends first: what was found is not lost, and nothing waits for what does not come.
func TestSanitizerOfEngineThatEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "engine.sock")
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Serve(ctx, path, 0o600, Config{}, func() { close(ready) }) }()
	<-ready
	x := newSuspect(t, dialed(t, path), SanitizerConfig{})
	destroy(x, true)
	stop()
	require.NoError(t, <-ended)
	await.Until(t, "the device is gone", func() bool { return x.c.err() != nil })
	require.ErrorIs(t, x.s.Close(), ErrDeviceGone)
	require.Len(t, x.s.Reports(), 1)
}
