package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// An event waits for its number of completions or for its time. Without moderation, and when
// moderation ends, it does not wait.
func TestModeration(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	id, event := h.channel()
	c := h.cq(control.CQ{LogSize: 4, Channel: id, Handle: 7})
	p := h.qp(control.QP{NoReceive: 1}, c, c)
	p.up(p)
	q := h.c.CQs[c.num]
	armed := 0
	arm := func() {
		armed++
		c.arm(uint32(armed), false)
		r.e.ObserveArm(q)
		require.True(t, q.Armed)
	}
	work := func(n int) {
		for range n {
			p.post(ctrl(wqe.OpNop))
		}
		r.settle()
		for range n {
			c.next()
		}
	}
	is := func(want bool, why string) {
		t.Helper()
		_, got := event()
		require.Equal(t, want, got, why)
	}
	require.Error(t, h.c.Moderate(c.num+1, 4, 4000))
	require.NoError(t, h.c.Moderate(c.num, 4, 4000))
	require.Equal(t, clock.Cycles(4000*1000), q.Moderation.Period)
	q.Moderation.Period = ^uint64(0) // so that only the count matters, however slow the machine is
	arm()
	work(3)
	is(false, "3 completions")
	require.Greater(t, q.HeldUntil()-clock.Now(), uint64(1)<<62)
	work(1)
	is(true, "4 completions")
	require.False(t, q.Armed)
	work(5)
	is(false, "not armed")
	arm()
	work(1)
	require.Zero(t, r.e.ObserveHeld(q))
	is(false, "1 completion")
	q.Moderation.Since, q.Moderation.Period = 1, 2
	require.EqualValues(t, 3, q.HeldUntil())
	require.Equal(t, 1, r.e.ObserveHeld(q))
	is(true, "time has passed")
	require.Equal(t, ^uint64(0), q.HeldUntil(), "no event waits")

	require.NoError(t, h.c.Moderate(c.num, 4, 4000))
	q.Moderation.Period = ^uint64(0)
	arm()
	work(1)
	is(false, "1 completion")
	require.NoError(t, h.c.Moderate(c.num, 0, 0))
	is(true, "moderation has ended")
	arm()
	work(1)
	is(true, "no moderation")
}

// The device does not sleep past an event that waits.
func TestSleepEndsForModeration(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	id, event := h.channel()
	c := h.cq(control.CQ{LogSize: 4, Channel: id, Handle: 7})
	p := h.qp(control.QP{NoReceive: 1}, c, c)
	p.up(p)
	require.NoError(t, h.c.Moderate(c.num, 100, 4095))
	q := h.c.CQs[c.num]
	// So that it has not passed yet, however slow the machine is.
	q.Moderation.Period = clock.Cycles(time.Hour)
	c.arm(1, false)
	r.e.ObserveArm(q)
	p.post(ctrl(wqe.OpNop))
	r.settle()
	_, next := visitEverything(r.e, true)
	require.LessOrEqual(t, next, q.Moderation.Period)
	q.Moderation.Period = 0
	done, _ := visitEverything(r.e, true)
	require.Equal(t, 1, done)
	_, got := event()
	require.True(t, got)
}
