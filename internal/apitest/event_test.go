package apitest

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fault makes the next work request of b.a fail on both sides.
func (b *bench) fault(t *testing.T) {
	t.Helper()
	c := b.do(t, b.a, nicless.SendWR{Op: nicless.Write, Data: []byte{1}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() ^ 1})
	require.ErrorIs(t, c.Err(), cqe.RemoteAccess)
}

func TestEvents(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
		ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := ctx.NextEvent(ended)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		b.fault(t)
		ev, err := ctx.NextEvent(t.Context())
		require.NoError(t, err)
		require.Equal(t, nicless.EventExplanation, ev.Kind)
		x := ev.Explanation
		require.Equal(t, b.a.QPN(), x.Number)
		require.Len(t, x.WQE, 64)
		require.Equal(t, byte(8), x.WQE[3], "the WQE as it was read: opcode WRITE")
		require.NotEmpty(t, x.Code)
		require.Contains(t, x.Text, "variant")
		require.Contains(t, x.String(), x.Code)
		ev = event(t, ctx)
		require.Equal(t, nicless.EventAccessError, ev.Kind)
		require.Equal(t, b.b.QPN(), ev.Number)
		require.Same(t, b.b, ev.QP)
		require.Equal(t, "access_error", ev.Kind.String())
		await.Until(t, "two events and an explanation are counted", func() bool { s, err := ctx.Status(); return err == nil && s.Events >= 2 && s.Explained >= 1 })
	})
}

// A handler takes the explanations. NextEvent returns all other events.
func TestOnExplanation(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	got := make(chan nicless.Explanation, 8)
	b.ctx.OnExplanation(func(x nicless.Explanation) { got <- x })
	b.fault(t)
	x := <-got
	require.Equal(t, b.a.QPN(), x.Number)
	ev, err := b.ctx.NextEvent(t.Context())
	require.NoError(t, err)
	require.Equal(t, nicless.EventAccessError, ev.Kind)

	var out bytes.Buffer
	x.Unsaid = 3
	nicless.LogExplanations(slog.New(slog.NewTextHandler(&out, nil)))(x)
	for _, s := range []string{"level=WARN", "explanation.code=" + x.Code, "explanation.unsaid=3", "explanation.text="} {
		require.Contains(t, out.String(), s)
	}
	b.ctx.OnExplanation(nil)
	b.revive(t)
	require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateSQD}))
	require.Equal(t, nicless.EventDrained, event(t, b.ctx).Kind)
}

// Events wake a program that sleeps in poll, and only events do.
func TestEventFd(t *testing.T) {
	path, stop := serve(t)
	ctx, err := nicless.Dial(path)
	require.NoError(t, err)
	defer ctx.Close()
	b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
	fd, err := ctx.EventFd()
	require.NoError(t, err)
	again, err := ctx.EventFd()
	require.NoError(t, err)
	require.Equal(t, fd, again)
	ready := func(timeout int) bool {
		n, err := 0, error(unix.EINTR)
		for err == unix.EINTR { // Go's scheduler sends signals
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, timeout)
		}
		require.NoError(t, err)
		return n == 1
	}
	for range 3 {
		require.False(t, ready(0))
		ev, err := ctx.PollEvent()
		require.NoError(t, err)
		require.Nil(t, ev)
		for range 2 {
			require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateSQD}))
			require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateRTS}))
		}
		for range 2 {
			require.True(t, ready(10_000))
			ev, err = ctx.PollEvent()
			require.NoError(t, err)
			require.NotNil(t, ev)
			require.Equal(t, nicless.EventDrained, ev.Kind)
		}
	}
	stop()
	require.True(t, ready(10_000), "the end is news, too")
	_, err = ctx.PollEvent()
	require.ErrorIs(t, err, nicless.ErrDeviceGone)
	require.True(t, ready(0))
	require.NoError(t, ctx.Close())
	_, err = ctx.EventFd()
	require.ErrorIs(t, err, nicless.ErrClosed)
	_, err = ctx.PollEvent()
	require.ErrorIs(t, err, nicless.ErrClosed)
}

// A program that takes no events loses the oldest, and sees how many it has lost.
func TestEventsLost(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	const rounds = 600 // more events than can wait in the Context and in the socket together
	for i := range rounds {
		require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateSQD}))
		require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateRTS}))
		if i%50 == 0 {
			time.Sleep(time.Millisecond) // so that the socket does not become full
		}
	}
	require.NoError(t, b.b.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateSQD}))
	seen, lost := 0, 0
	for {
		ev := event(t, b.ctx)
		lost += ev.Lost
		if ev.QP == b.b {
			break
		}
		seen++
	}
	require.LessOrEqual(t, seen+lost, rounds)
	require.Less(t, seen, rounds)
}

// All calls return ErrDeviceGone at once when the device is gone.
func TestDeviceGone(t *testing.T) {
	path, stop := serve(t)
	ctx, err := nicless.Dial(path)
	require.NoError(t, err)
	defer ctx.Close()
	b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
	ch, err := ctx.CreateChannel()
	require.NoError(t, err)
	srq, err := b.pd.CreateSRQ(nicless.SRQConfig{})
	require.NoError(t, err)
	w, err := b.pd.AllocWindow(1)
	require.NoError(t, err)
	wake := make(chan error, 3)
	go func() { _, err := ch.Wait(context.Background()); wake <- err }()
	go func() { _, err := ctx.NextEvent(context.Background()); wake <- err }()
	go func() { _, err := b.cq.Wait(context.Background(), make([]nicless.Completion, 1)); wake <- err }()
	require.NoError(t, b.a.PostSend(&nicless.SendWR{Op: nicless.Nop}))
	stop()
	for range 3 {
		require.ErrorIs(t, <-wake, nicless.ErrDeviceGone)
	}
	<-ctx.Done()
	var c [1]nicless.Completion
	for name, f := range map[string]func() error{
		"PostSend":       func() error { return b.a.PostSend(&nop) },
		"PostSendList":   func() error { _, err := b.a.PostSendList([]nicless.SendWR{nop}); return err },
		"PostRecv":       func() error { return b.a.PostRecv(&nicless.RecvWR{}) },
		"PostRecvList":   func() error { _, err := b.a.PostRecvList(nil); return err },
		"SRQ.PostRecv":   func() error { return srq.PostRecv(&nicless.RecvWR{}) },
		"SRQ.list":       func() error { _, err := srq.PostRecvList(nil); return err },
		"SRQ.SetLimit":   func() error { return srq.SetLimit(1) },
		"SRQ.Query":      func() error { _, err := srq.Query(); return err },
		"Poll":           func() error { _, err := b.cq.Poll(c[:]); return err },
		"Wait":           func() error { _, err := b.cq.Wait(context.Background(), c[:]); return err },
		"Arm":            func() error { return b.cq.Arm(false) },
		"Resize":         func() error { return b.cq.Resize(512) },
		"Channel.Wait":   func() error { _, err := ch.Wait(context.Background()); return err },
		"Channel.Poll":   func() error { _, err := ch.Poll(); return err },
		"NextEvent":      func() error { _, err := ctx.NextEvent(context.Background()); return err },
		"Modify":         func() error { return b.a.Modify(&nicless.Attr{}) },
		"Query":          func() error { _, err := b.a.Query(); return err },
		"AllocPD":        func() error { _, err := ctx.AllocPD(); return err },
		"RegisterMemory": func() error { _, err := b.pd.RegisterMemory(1, 0); return err },
		"Register":       func() error { _, err := b.mr.Register(0, 1, 0); return err },
		"Reregister":     func() error { return b.mr.Reregister(nil, 0, 1, 0) },
		"CreateCQ":       func() error { _, err := ctx.CreateCQ(nicless.CQConfig{}); return err },
		"CreateChannel":  func() error { _, err := ctx.CreateChannel(); return err },
		"CreateQP":       func() error { _, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq}); return err },
		"CreateSRQ":      func() error { _, err := b.pd.CreateSRQ(nicless.SRQConfig{}); return err },
		"AllocWindow":    func() error { _, err := b.pd.AllocWindow(2); return err },
		"CreateListKey":  func() error { _, err := b.pd.CreateListKey(1); return err },
	} {
		require.ErrorIs(t, f(), nicless.ErrDeviceGone, name)
	}
	require.Len(t, b.mr.Bytes(), mrSize, "memory stays")
	for _, f := range []func() error{w.Close, srq.Close, ch.Close, b.a.Close, b.cq.Close, b.mr.Close, b.pd.Close} {
		require.NoError(t, f())
	}
	require.NoError(t, ctx.Close())
	_, err = ctx.NextEvent(context.Background())
	require.ErrorIs(t, err, nicless.ErrClosed)
}
