package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Every kind of object is refused when its user may have no more of the device's memory. When
// an object is destroyed, the user's charge for it is refunded.
func TestObjectsCostMemory(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	c := h.cq(control.CQ{LogSize: 4})
	_, ring := h.take(1 << 12)
	start := r.owed()
	for _, x := range []struct {
		make, destroy control.Op
		req, ans      control.Message
		cost          int
	}{
		{control.OpAllocPD, control.OpDeallocPD, &control.Empty{}, &control.PD{}, object.PDCost},
		{control.OpRegMR, control.OpDeregMR, &control.MR{PDN: h.pd, Addr: h.base, Length: 1}, &control.Key{}, object.KeyCost},
		{control.OpAllocMW, control.OpDeregMR, &control.MW{PDN: h.pd, Kind: 1}, &control.Key{}, object.KeyCost},
		{control.OpCreateMkey, control.OpDeregMR, &control.Mkey{PDN: h.pd, Entries: 52}, &control.Key{}, object.KeyCost + 52*object.RunCost},
		{control.OpCreateCQ, control.OpDestroyCQ, &control.CQ{Buf: ring, DBRec: ring, LogCQE: 6}, &control.CQN{}, object.CQCost},
		{control.OpCreateSRQ, control.OpDestroySRQ, &control.SRQ{PDN: h.pd, Ring: ring, DBRec: ring, LogSize: 7, LogStride: 5}, &control.SRQN{}, object.SrqCost + 128*object.EntryCost},
		{control.OpCreateQP, control.OpDestroyQP, &control.QP{PDN: h.pd, SendCQN: c.num, RecvCQN: c.num, SQ: ring, DBRec: ring, NoReceive: 1}, &control.QPN{}, object.QPCost},
		{control.OpCreateChannel, control.OpDestroyChannel, &control.Empty{}, &control.Channel{}, object.SocketCost},
	} {
		r.e.Ledger.SetLimit(quota.Memory, 2*(start[quota.Memory]+x.cost), "a test")
		h.call(x.make, x.req, x.ans)
		require.Equal(t, start[quota.Memory]+x.cost, r.owed()[quota.Memory], "%v", x.make)
		h.refused(control.CodeLimit, "bytes of memory of the device's process and asks for", x.make, x.req, nil)
		h.call(x.destroy, x.ans, &control.Empty{})
		require.Equal(t, start, r.owed(), "%v", x.destroy)
		h.call(x.make, x.req, x.ans) // to be destroyed by Close
		start = r.owed()
	}
	require.NoError(t, h.c.Close())
	require.Equal(t, quota.Charge{}, r.owed())
}

// The limit on memory is reached long before the 24-bit numbers run short. This is necessary
// because a free number is found by trying.
func TestNumbersDoNotRunShort(t *testing.T) {
	for _, cost := range []int{object.KeyCost, object.CQCost, object.SrqCost, object.QPCost} {
		require.LessOrEqual(t, quota.New(object.SystemRoot).Limit(quota.Memory)/cost, 1<<24/8)
	}
}

// Room for entries that are put back is allocated only when entries are put back.
func TestSRQCostsLittleAtFirst(t *testing.T) {
	s := newRig(t, Config{}).host("h").srq(control.SRQ{LogSize: 8})
	require.Zero(t, cap(s.s.Returned))
	for i := range uint16(300) {
		s.s.Return(i)
	}
	require.Len(t, s.s.Returned, 256, "there are no more entries")
}

// The jobs of long transfers are freed with the queue pairs that had them.
func TestSpareJobsGo(t *testing.T) {
	if *watched {
		t.Skip("a watched client pays for the record, so fewer of its queues have their turn in a step")
	}
	r := newRig(t, Config{Slice: 64})
	h := r.host("h")
	k := h.full(4096, 1)
	for range 8 {
		p, _ := pair(h, h)
		p.post(ctrl(wqe.OpRDMAWrite), k.raddr(0), k.data(0, 4096))
	}
	r.e.Step()
	require.Equal(t, 8, underWay(r.e))
	r.settle()
	require.Len(t, r.e.Scratch.Spare, 8)
	for n := range r.e.QPs {
		h.call(control.OpDestroyQP, &control.QPN{QPN: n}, &control.Empty{})
		require.LessOrEqual(t, len(r.e.Scratch.Spare), len(r.e.QPs))
	}
	require.Empty(t, r.e.Scratch.Spare)
}

// A connection over a link costs what its messages and jobs take. A queue pair whose client's user may
// have no more is not connected, and stays what it was.
func TestLinksCostMemory(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca, cb := a.cq(control.CQ{LogSize: 8}), b.cq(control.CQ{LogSize: 8})
	p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{}, cb, cb)
	start := r.owed()[quota.Memory]
	p.up(q)
	require.Equal(t, start+object.WireCost, r.owed()[quota.Memory])

	r.e.Ledger.SetLimit(quota.Memory, 2*r.owed()[quota.Memory], "a test")
	q.modify(q.toInit())
	q.overLink(p)
	require.ErrorContains(t, q.tryModify(q.toRTR(p.num)), "bytes of memory of the device's process and asks for")
	require.Equal(t, control.StateINIT, q.state())
	require.Nil(t, q.q.Wire)
	r.e.Ledger.SetLimit(quota.Memory, 1<<30, "a test")
	q.modify(q.toRTR(p.num))
	require.Equal(t, start+2*object.WireCost, r.owed()[quota.Memory])

	p.toState(control.StateERR)
	require.Equal(t, start+2*object.WireCost, r.owed()[quota.Memory])
	p.toState(control.StateRST)
	q.destroy()
	require.Equal(t, start-object.QPCost, r.owed()[quota.Memory])
	require.NoError(t, a.c.Close())
	require.NoError(t, b.c.Close())
	require.Equal(t, quota.Charge{}, r.owed())
}
