package engine

import (
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/announce"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// ringAll rings for all WQEs of p that have been written.
func (p *end) ringAll() {
	p.bell(0x800).Publish(uint64(doorbell.MakeRing(p.sent, p.num)))
}

// A guarded queue with a full ring has no more WQEs copied in a step than twice as many as are executed, and
// the queue of another client gets its turn in each step.
func TestFullGuardedRingHoldsNobodyUp(t *testing.T) {
	const burst, blocks = 4, 256
	r := newRig(t, Config{Burst: burst})
	a, b := r.host("a"), r.host("b")
	c := a.cq(control.CQ{LogSize: 10})
	p := a.qp(control.QP{UAR: rungPage, Doorbells: control.DoorbellGuarded, NoReceive: 1, LogSQ: 8}, c, nil)
	p.up(p)
	q, _ := pair(b, b)
	for range blocks {
		p.write(ctrl(wqe.OpNop))
	}
	p.ringAll()
	r.e.Sched.Alone.WQEs = burst
	steps := 0
	for p.q.SQ.Done < blocks {
		admitted := p.q.Source.Admitted()
		index := q.post(ctrl(wqe.OpNop))
		r.e.Step()
		require.Equal(t, index, q.scq.one().Counter, "in the same step")
		require.LessOrEqual(t, p.q.Source.Admitted()-admitted, uint64(2*burst), "copied in a step")
		require.LessOrEqual(t, p.q.Source.Admitted()-p.q.SQ.Done, uint64(2*burst), "copied and not executed")
		require.Less(t, steps, blocks/burst, "as fast as other queues")
		steps++
	}
	require.Len(t, c.all(), blocks)
}

// A client pays in its turn for blocks that are copied, also of WQEs that have not arrived.
func TestCopiesOfGuardedQueuesAreCharged(t *testing.T) {
	const queues, most = 10, 3
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	dst := a.full(1024, 1)
	var ends []*end
	for range queues {
		p := a.qp(control.QP{UAR: rungPage, Doorbells: control.DoorbellGuarded, NoReceive: 1, LogSQ: 4}, c, nil)
		p.up(p)
		at := len(p.sq) - 16 - 8
		late := [8]byte(p.sq[at:])
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), make([]byte, wqe.MaxBlocks*wqe.BlockSize-16-36))
		copy(p.sq[at:], late[:])
		ends = append(ends, p)
	}
	for _, p := range ends {
		p.ringAll() // the page has one word: each step sees the ring of one queue
		r.e.Step()
		require.EqualValues(t, wqe.MaxBlocks, p.q.Source.Announced())
	}
	r.e.Sched.Alone.Bytes = most * wqe.MaxBlocks * wqe.BlockSize
	for range 2 * queues {
		for _, p := range ends {
			for i := range uint64(wqe.MaxBlocks) {
				clear(p.q.SQ.Blocks.At(i)[:])
			}
		}
		r.e.Step()
		copied := 0
		for _, p := range ends {
			if *p.q.SQ.Blocks.At(0) != ([wqe.BlockSize]byte{}) {
				copied++
			}
		}
		require.Equal(t, most, copied)
	}
}

// Looking at the registers of a queue counts as several polls of records, in patrols and in passes. Queues of
// other clients are found all the same.
func TestPatrolCountsRegisters(t *testing.T) {
	const n = 200
	const each = 1 + announce.Places
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	c := a.cq(control.CQ{LogSize: 4})
	for range n {
		p := a.qp(control.QP{UAR: rungPage, Doorbells: control.DoorbellRegister, NoReceive: 1, LogSQ: 0}, c, nil)
		p.up(p)
	}
	q, _ := pair(b, b)
	r.cold()
	polled := func(do func()) int {
		before := r.patrolled()[a.c.Client]
		do()
		return (before - r.patrolled()[a.c.Client] + n) % n
	}
	q.post(ctrl(wqe.OpNop))
	polls := polled(func() { require.Equal(t, 1, r.e.PatrolMany()) })
	require.Less(t, polls*each, n+16*each)
	require.GreaterOrEqual(t, polls, loop.PatrolPolls)
	r.settle()
	q.scq.one()
	for range 10 {
		require.GreaterOrEqual(t, polled(func() { r.e.Step() }), loop.PatrolPolls-2, "and the two queues of b")
	}

	l := r.e
	l.BeginPass()
	const most = 64
	for left := n; left > 0; {
		l.Look(most, false)
		now := a.c.Client.Pass.Queues
		require.LessOrEqual(t, (left-now-1)*each, most)
		left = now
	}
}
