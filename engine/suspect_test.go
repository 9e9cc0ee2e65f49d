package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Inline data travels in the WQE: a transfer that is cut into slices must keep
// its own, whatever other queues execute in between.
func TestInlineDataOfASlicedTransfer(t *testing.T) {
	r := newRig(t, Config{Slice: 64})
	a, b := r.host("a"), r.host("b")
	p, q := pair(a, b)
	s, _ := pair(a, b)
	from, to := a.full(256, 3), b.full(512, 0)
	secret := make([]byte, 40)
	for i := range secret {
		secret[i] = 0xee
	}
	tail := pattern(40, 9)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 256), tail)
	for range 4 {
		s.post(ctrl(wqe.OpRDMAWrite), to.raddr(400), secret)
		r.e.Step()
	}
	r.settle()
	require.Equal(t, cqe.Syndrome(0), p.scq.one().Syndrome)
	r.same(append(append([]byte{}, from.mem...), tail...), to.mem[:296], "sliced write")
	_ = q
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

// A wait that ends in the overrun of a CQ takes others that wait with it.
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
		p.up(full) // which is not connected back
		p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
	}
	r.settle()
	require.Len(t, r.e.stalled, 3)
	r.expire()
	require.Empty(t, r.e.stalled)
}

// A WQE that claims more blocks than were announced takes those that were.
func TestFlushAfterWQEPastRecord(t *testing.T) {
	r, p, _ := duo(t, Config{})
	var b [64]byte
	wqe.Ctrl{Opcode: wqe.OpNop, QPN: p.num, DS: 12, Flags: wqe.CEAlways}.Put((*[16]byte)(b[:]))
	p.raw(b[:])
	r.settle()
	r.failed(p.scq.one(), cqe.LocalQPOp, 0)
	for i := range uint16(3) {
		p.post(ctrl(wqe.OpNop))
		r.settle()
		r.failed(p.scq.one(), cqe.Flush, 1+i)
	}
}
