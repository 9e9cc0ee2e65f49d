package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// If all queues are armed at once, a step answers a few of them and polls a few more. The
// others follow in later steps. Each queue sends exactly one event.
func TestArmsAreAnsweredInTurn(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	id, event := a.channel()
	list := make([]*poller, 3*armPolls)
	for i := range list {
		list[i] = a.cq(control.CQ{Channel: id, Handle: uint64(i)})
		p := a.qp(control.QP{NoReceive: 1}, list[i], list[i])
		p.up(p)
		p.post(ctrl(wqe.OpNop))
	}
	r.settle()
	looked := func() (n int) {
		for _, q := range r.e.arm.cqs {
			if q.armRegSeen == 7 {
				n++
			}
		}
		return n
	}
	for _, q := range r.e.arm.cqs {
		q.armReg.Publish(7) // all queues share one register; no queue is armed
	}
	require.Zero(t, r.e.observeArms())
	require.Equal(t, armPolls, looked())

	for _, c := range list {
		c.arm(1, false)
	}
	for _, q := range r.e.arm.cqs {
		q.armReg.Publish(8)
	}
	seen := make(map[uint64]bool)
	for len(seen) < len(list) {
		n := r.e.observeArms()
		require.LessOrEqual(t, n, armAnswers)
		require.Positive(t, n)
		for range n {
			handle, ok := event()
			require.True(t, ok)
			require.False(t, seen[handle])
			seen[handle] = true
		}
	}
	_, ok := event()
	require.False(t, ok)
}
