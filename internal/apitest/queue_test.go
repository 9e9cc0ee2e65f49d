package apitest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// poll polls until it has n completions.
func poll(t testing.TB, q *nicless.CQ, n int) (list []nicless.Completion) {
	t.Helper()
	c := make([]nicless.Completion, n)
	await.Until(t, "all completions come", func() bool {
		for range 1000 { // most come within some polls
			k, err := q.Poll(c[:n-len(list)])
			require.NoError(t, err)
			list = append(list, c[:k]...)
			if len(list) == n {
				return true
			}
			runtime.Gosched()
		}
		return false
	}, func() any { return fmt.Sprintf("%d of %d completions", len(list), n) })
	return list
}

// Work continues while the queue is resized many times. No completion is lost or comes
// twice.
func TestResize(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		for _, wide := range []bool{false, true} {
			b := fill(t, ctx, nicless.CQConfig{Entries: 64, Size128: wide}, nicless.QPConfig{MaxSendWR: 64})
			posted, done := uint64(0), uint64(0)
			for round := range 60 {
				for range 1 + round*7%30 {
					require.NoError(t, b.a.PostSend(&nicless.SendWR{ID: posted, Op: nicless.Nop, Flags: nicless.Signaled}))
					posted++
				}
				if round%3 == 0 {
					for done < posted {
						require.Equal(t, done, poll(t, b.cq, 1)[0].ID)
						done++
					}
				}
				require.NoError(t, b.cq.Resize(64<<(round%4)))
				for posted-done > 20 {
					require.Equal(t, done, poll(t, b.cq, 1)[0].ID)
					done++
				}
			}
			for ; done < posted; done++ {
				require.Equal(t, done, poll(t, b.cq, 1)[0].ID)
			}
			require.Equal(t, uint32(done)+60, b.cq.Index())
			c := b.ok(t, b.a, nop) // waiting still works
			require.Equal(t, cqe.WCFromPost, c.Opcode)
		}
	})
}

func TestResizeRefused(t *testing.T) {
	b := open(t, nicless.CQConfig{Entries: 16}, nicless.QPConfig{})
	for id := range uint64(5) {
		require.NoError(t, b.a.PostSend(&nicless.SendWR{ID: id, Op: nicless.Nop, Flags: nicless.Signaled}))
	}
	await.Until(t, "5 completions are written", func() bool { s, err := b.ctx.Status(); return err == nil && s.CQEs == 5 })
	for _, n := range []int{0, -1, 1<<22 + 1, 4} {
		require.ErrorIs(t, b.cq.Resize(n), nicless.ErrInvalid, n)
	}
	for id, c := range poll(t, b.cq, 5) {
		require.Equal(t, uint64(id), c.ID)
	}
	q, err := b.ctx.CreateCQ(nicless.CQConfig{Collapsed: true})
	require.NoError(t, err)
	require.ErrorIs(t, q.Resize(2), nicless.ErrInvalid)
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.Resize(2), nicless.ErrClosed)
}

func TestCollapsed(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{Collapsed: true}, nicless.QPConfig{MaxSendWR: 16})
		_, err := b.cq.Wait(t.Context(), make([]nicless.Completion, 1))
		require.ErrorContains(t, err, "PollOnly")
		require.ErrorContains(t, b.cq.Arm(false), "PollOnly")
		var c [4]nicless.Completion
		for posted, done := uint64(0), uint64(0); done < 5000; {
			if posted < 5000 {
				err := b.a.PostSend(&nicless.SendWR{ID: posted, Op: nicless.Nop, Flags: nicless.Signaled})
				if err == nil {
					posted++
					continue
				}
				require.ErrorIs(t, err, nicless.ErrFull)
			}
			n, err := b.cq.Poll(c[:])
			require.NoError(t, err)
			require.LessOrEqual(t, n, 1)
			if n == 1 {
				require.NoError(t, c[0].Err())
				require.GreaterOrEqual(t, c[0].ID, done)
				require.Less(t, c[0].ID, posted)
				done = c[0].ID + 1
			}
			runtime.Gosched()
		}
	})
}

// An error in a collapsed queue is not overwritten by work that is flushed after it. It
// stays until the queue pair is reset.
func TestCollapsedError(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{Collapsed: true}, nicless.QPConfig{})
		for life := range uint64(3) {
			bad := nicless.SendWR{ID: 2 + life, Op: nicless.Write, Data: []byte{1}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() ^ 1}
			_, err := b.a.PostSendList([]nicless.SendWR{nop, bad, nop, nop})
			require.NoError(t, err)
			await.Until(t, "the queue pair is in the error state", func() bool { a, err := b.a.Query(); return err == nil && a.State == nicless.StateERR })
			require.NoError(t, b.a.PostSend(&nop)) // this is flushed too
			c := poll(t, b.cq, 1)[0]
			require.ErrorIs(t, c.Err(), cqe.RemoteAccess)
			require.Equal(t, 2+life, c.ID)
			n, err := b.cq.Poll(make([]nicless.Completion, 1))
			require.NoError(t, err)
			require.Zero(t, n)
			b.revive(t)
		}
		require.NoError(t, b.a.PostSend(&nop))
		c := poll(t, b.cq, 1)[0]
		require.NoError(t, c.Err())
	})
}

// With IgnoreOverrun the queue does not stop when it overflows, and completions that are polled
// in time are correct.
func TestIgnoreOverrun(t *testing.T) {
	b := open(t, nicless.CQConfig{Entries: 4, IgnoreOverrun: true}, nicless.QPConfig{})
	for range 3 {
		for range 4 {
			b.ok(t, b.a, nop)
		}
	}
	for range 20 {
		require.NoError(t, b.a.PostSend(&nop))
	}
	await.Until(t, "32 completions are written", func() bool { s, err := b.ctx.Status(); return err == nil && s.CQEs == 32 })
	a, err := b.a.Query()
	require.NoError(t, err)
	require.Equal(t, nicless.StateRTS, a.State)
	require.ErrorIs(t, b.cq.Resize(8), nicless.ErrInvalid)
}

// One channel reports completions of many queues. A program may also wait on it by epoll.
func TestChannel(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		ch, err := ctx.CreateChannel()
		require.NoError(t, err)
		var list []*bench
		for range 3 {
			b := fill(t, ctx, nicless.CQConfig{Channel: ch}, nicless.QPConfig{})
			require.Same(t, ch, b.cq.Channel())
			_, err = b.cq.Wait(t.Context(), make([]nicless.Completion, 1))
			require.ErrorContains(t, err, "wait there")
			list = append(list, b)
		}
		q, err := ch.Poll()
		require.NoError(t, err)
		require.Nil(t, q)
		for i := range 300 {
			b := list[i%3]
			require.NoError(t, b.cq.Arm(false))
			require.NoError(t, b.a.PostSend(&nop))
			switch i % 2 {
			case 0:
				q, err = ch.Wait(t.Context())
			default:
				n, perr := 0, error(unix.EINTR)
				for perr == unix.EINTR { // Go's scheduler sends signals
					n, perr = unix.Poll([]unix.PollFd{{Fd: int32(ch.Fd()), Events: unix.POLLIN}}, 10_000)
				}
				require.NoError(t, perr)
				require.Equal(t, 1, n)
				q, err = ch.Poll()
			}
			require.NoError(t, err)
			require.Same(t, b.cq, q)
			poll(t, q, 1)
		}
		ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = ch.Wait(ended)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, ch.Close(), nicless.ErrBusy)

		// After Arm(true) a solicited message causes an event, and another message does not.
		b := list[0]
		for range 2 {
			require.NoError(t, b.b.PostRecv(&nicless.RecvWR{}))
		}
		require.NoError(t, b.cq.Arm(true))
		require.NoError(t, b.a.PostSend(&nicless.SendWR{Op: nicless.Send}))
		poll(t, b.cq, 1)
		_, err = b.a.Query() // the engine's thread has sent all events when it answers
		require.NoError(t, err)
		q, err = ch.Poll()
		require.NoError(t, err)
		require.Nil(t, q)
		require.NoError(t, b.a.PostSend(&nicless.SendWR{Op: nicless.Send, Flags: nicless.Solicited}))
		q, err = ch.Wait(t.Context())
		require.NoError(t, err)
		require.Same(t, b.cq, q)

		for _, b := range list {
			require.NoError(t, b.a.Close())
			require.NoError(t, b.b.Close())
			require.NoError(t, b.cq.Close())
			require.ErrorIs(t, b.cq.Arm(false), nicless.ErrClosed)
		}
		for range 2 {
			require.NoError(t, ch.Close())
		}
		_, err = ch.Wait(t.Context())
		require.ErrorIs(t, err, nicless.ErrClosed)
		_, err = ctx.CreateCQ(nicless.CQConfig{Channel: ch})
		require.ErrorIs(t, err, nicless.ErrClosed)
	})
}

func TestCQConfigs(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	other := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	ch, err := b.ctx.CreateChannel()
	require.NoError(t, err)
	for _, c := range []nicless.CQConfig{
		{Collapsed: true, Entries: 2}, {Collapsed: true, Channel: ch}, {PollOnly: true, Channel: ch}, {Channel: other.cq.Channel()},
	} {
		_, err := b.ctx.CreateCQ(c)
		require.Error(t, err)
	}
}

// An overrun causes an event, and polls and waits return an error.
func TestOverrun(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{Entries: 2, PollOnly: true}, nicless.QPConfig{})
		_, err := b.a.PostSendList([]nicless.SendWR{nop, nop, nop})
		require.NoError(t, err)
		ev := event(t, ctx)
		require.Equal(t, nicless.EventCQError, ev.Kind)
		require.Same(t, b.cq, ev.CQ)
		poll(t, b.cq, 2)
		var c [1]nicless.Completion
		_, err = b.cq.Poll(c[:])
		require.ErrorIs(t, err, nicless.ErrOverrun)
		_, err = b.cq.Wait(t.Context(), c[:])
		require.ErrorIs(t, err, nicless.ErrOverrun)
		require.Error(t, b.cq.Resize(64))
	})
}
