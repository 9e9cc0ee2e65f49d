package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// When Drain returns, all announced work has been executed, however much it is. This
// includes the work of peers, and sends that waited for a receive which has come.
func TestSettle(t *testing.T) {
	s := newScene(t, Config{Slice: 64, Burst: 1})
	long := s.p.h.full(200_000, 1)
	to := s.q.h.full(200_000, 2)
	for range 3 {
		s.p.post(ctrl(wqe.OpNop))
	}
	s.p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), long.data(0, 200_000))
	s.q.post(ctrl(wqe.OpRDMARead), s.local.raddr(0), s.far.data(0, 200))
	s.p.h.c.Drain()
	require.Len(t, s.p.scq.all(), 4)
	s.same(long.mem, to.mem, "a transfer in thousands of slices")
	s.q.good()

	s.q.post(ctrl(wqe.OpSend), s.far.data(0, 8))
	s.settle()
	require.Equal(t, object.NotReady, s.q.q.Stall.Kind)
	s.p.recv(s.local.data(0, 8))
	s.p.h.c.Drain()
	s.q.good()
	require.Equal(t, unharmed, s.p.rcq.one().Syndrome)

	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8)) // waits: nothing more can be executed
	s.p.post(ctrl(wqe.OpNop))
	s.p.h.c.Drain()
	s.p.scq.none()
	s.idle1.post(ctrl(wqe.OpNop))
	s.p.toState(control.StateERR)
	s.p.h.c.Drain()
	s.idle1.good()
	list := s.p.scq.all()
	require.Equal(t, []cqe.Syndrome{cqe.Flush, cqe.Flush}, []cqe.Syndrome{list[0].Syndrome, list[1].Syndrome})
	require.NoError(t, s.p.h.c.Close())
	s.p.h.c.Drain()
}

// Work announced during Drain does not prolong it. Here a queue pair enables itself for
// ever.
func TestSettleIsBounded(t *testing.T) {
	r := newRig(t, Config{Burst: 1})
	h := r.host("h")
	c := h.cq(control.CQ{LogSize: 4, Flags: control.CQIgnoreOverrun})
	p := h.qp(control.QP{NoReceive: 1, Managed: 1}, c, c)
	starter := h.qp(control.QP{NoReceive: 1}, c, c)
	p.up(p)
	starter.up(starter)
	for range 16 {
		p.write(silent(wqe.OpSendEn), wqe.Wait{Index: 1, Number: p.num})
	}
	shm.BE32At(p.rec, 4).Publish(16)
	starter.post(ctrl(wqe.OpSendEn), wqe.Wait{Index: 1, Number: p.num})
	h.c.Drain()
	require.Equal(t, control.StateRTS, p.state())
}

// If memory has lost its pages, Drain makes that a fault of the queue pair that uses it.
func TestSettleMeetsAFault(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, q := pair(a, b)
	_, base, shrink := a.trusted(1 << 16)
	k := a.reg(a.pd, base, 1<<16, control.AccessLocalWrite)
	far := b.full(64, 1)
	shrink(0)
	index := p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), wqe.Data{ByteCount: 64, LKey: k, Addr: base})
	q.post(ctrl(wqe.OpNop))
	a.c.Drain()
	a.c.Drain()
	r.failed(p.scq.one(), cqe.LocalProtection, index)
	q.good()
	require.Equal(t, object.Whole, r.e.Fault.Cut)
}

// Other clients have their turns while Drain polls many queue pairs for what they announce.
func TestSettleTakesTurns(t *testing.T) {
	roomy(t)
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	for range object.Portion + 1 {
		pair(a, b)
	}
	r.e.Mail.Running, r.e.Mail.CallersRun, r.e.Mail.Wake = true, true, func() {}
	defer func() { r.e.Mail.Running, r.e.Mail.CallersRun = false, false }()
	before := r.e.Served
	a.c.Drain()
	const listed, asked, visited = 1, 2, 3 // steps of Drain; with the peers, 130 queue pairs are visited
	require.Equal(t, uint64(listed+asked+visited), r.e.Served-before)
}
