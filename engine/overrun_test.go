package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// When a wait ends with the overrun of a CQ, other queues that wait and use this CQ leave
// the list of stalled queues too.
func TestOverrunWhileOthersWait(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 0})
	d := a.cq(control.CQ{LogSize: 4})
	full := a.qp(control.QP{}, c, d)
	full.up(full)
	full.post(ctrl(wqe.OpNop))
	r.settle()
	for range 3 {
		p := a.qp(control.QP{}, c, d)
		p.up(full) // full is not connected back, so p waits
		p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
	}
	r.settle()
	require.Len(t, stalledQueues(r.e), 3)
	r.expire()
	require.Empty(t, stalledQueues(r.e))
}

// A CQ that has overrun is dead: what the client consumes later makes no room.
func TestOverrunCQStaysDead(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c, d := a.cq(control.CQ{LogSize: 1}), a.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, c, d), a.qp(control.QP{}, d, d)
	p.up(q)
	q.up(p)
	for range 3 {
		p.post(ctrl(wqe.OpNop))
	}
	r.settle()
	require.Equal(t, control.StateERR, p.state())
	require.Equal(t, control.StateRTS, q.state())
	require.Len(t, c.all(), 2)
	p.post(ctrl(wqe.OpNop))
	r.settle()
	require.Empty(t, c.all(), "completions after one was lost")
}

// When a completion queue ends, its queue pairs go to error some at a time, also those that
// have no work. Queue pairs of other completion queues go on.
func TestOverrunEndsQueuePairsInPortions(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c, d := a.cq(control.CQ{LogSize: 1}), a.cq(control.CQ{LogSize: 4})
	ends := make([]*end, 3*completion.SweepPortion)
	for i := range ends {
		ends[i] = a.qp(control.QP{NoReceive: 1}, c, d)
		if i%2 == 1 {
			ends[i] = a.qp(control.QP{NoReceive: 1}, d, c)
		}
		ends[i].up(ends[i])
	}
	other := a.qp(control.QP{}, d, d)
	other.up(other)
	inError := func() (n int) {
		for _, p := range ends {
			if p.state() == control.StateERR {
				n++
			}
		}
		return n
	}
	for range 3 {
		ends[0].write(ctrl(wqe.OpNop))
	}
	ends[0].ring()
	before := 0
	for inError() < len(ends) {
		r.e.Step()
		now := inError()
		require.Greater(t, now, before)
		require.LessOrEqual(t, now-before, completion.SweepPortion+1)
		before = now
		if now == completion.SweepPortion { // a queue pair is reset in the middle of the sweep
			r.e.SetState(ends[1].q, control.StateRST)
			ends = append(ends[:1], ends[2:]...)
			before = inError()
		}
	}
	require.Equal(t, control.StateRTS, other.state())
}

// A sweep begins after an earlier sweep was cut short, while a queue pair is made. It
// misses no queue pair.
func TestOverrunMissesNobody(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	good, one, two := h.cq(control.CQ{LogSize: 4}), h.cq(control.CQ{LogSize: 1}), h.cq(control.CQ{LogSize: 1})
	overrun := func(c *poller) {
		p := h.qp(control.QP{}, c, good)
		p.up(p)
		for range 3 {
			p.post(ctrl(wqe.OpNop))
		}
		for r.e.Sched.Unswept == 0 {
			r.e.Step()
		}
	}
	idle := func(c *poller, n int) (list []*end) {
		for range n {
			p := h.qp(control.QP{LogRQ: 1}, c, c)
			p.modify(p.toInit())
			list = append(list, p)
		}
		return list
	}
	second := idle(two, 3*completion.SweepPortion)
	first := idle(one, completion.SweepPortion)
	overrun(one)
	for r.e.Sched.Unswept > 2*completion.SweepPortion {
		r.e.Step()
	}
	first[0].destroy() // in the middle of the sweep
	for r.e.Sched.Unswept > 0 {
		r.e.Step()
	}
	overrun(two)
	idle(good, 1)
	r.settle()
	for i, p := range append(first[1:], second...) {
		require.Equal(t, control.StateERR, p.state(), "queue pair %d", i)
	}
}
