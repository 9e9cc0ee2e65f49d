package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// fastBytes is the longest payload that takes the fast path, fastCost what the
// shortest takes of the budget of a visit.
const (
	fastBytes = 4096
	fastCost  = 256
)

// fastPath executes WQEs of q, at most that many and as the budget of bytes allows,
// as long as they are the commonest there are: WRITEs and READs of one short
// piece, SENDs of one into one, fetch-and-add and compare-and-swap of 8 bytes. It
// returns how many it did and what of the budget they took.
//
// It asks everything that the slow path asks, but keeps the snapshot of a WQE, a
// few words of it, and the answers in registers: a store less is a line more that
// can be on its way from the other side. Whatever is unusual in any way it leaves
// alone, for the slow path to copy anew, to judge and to explain. A fault of memory
// leaves the WQEs of its run before it out of the client's counters.
func (sh *shard) fastPath(q *qp, most, budget int) (done, cost int) {
	return sh.fastPathFrom(q, wqes{q.sq.ring, q.sq.mask}, most, budget)
}

// wqes is where the WQEs of a queue are taken from: its ring, or a snapshot of one
// block, of which any index is the first.
type wqes struct {
	mem  []byte
	mask uint64 // blocks - 1
}

func (w wqes) at(index uint64) uint64 { return index & w.mask * wqe.BlockSize }

// fastPathFrom is express with WQEs from elsewhere than the ring.
func (sh *shard) fastPathFrom(q *qp, from wqes, most, budget int) (done, cost int) {
	p := q.conn.peer
	if !q.fastPath || sh.hooks.noFastPath || !q.connected(p) {
		return 0, 0
	}
	moved := uint64(0)
	// What is read here picks who judges, and nothing else: they read it anew.
	first := head{first: shm.BlockAt(from.mem, from.at(q.sq.done)).Word(0)}
	switch first.opcode() {
	case wqe.OpRDMAWrite, wqe.OpRDMARead:
		done, cost, moved = sh.fastMove(q, p, from, most, budget)
	case wqe.OpSend, wqe.OpSendImm:
		done, cost, moved = sh.fastSend(q, p, from, most, budget)
	case wqe.OpAtomicCS, wqe.OpAtomicFA:
		done, cost, moved = sh.fastAtomic(q, p, from, most, budget)
	}
	if done > 0 {
		count := &q.client.count
		count[control.CounterWQEs] += uint64(done)
		count[control.CounterBytes] += moved
	}
	return done, cost
}

// ordinary reports whether the control segment of q's next WQE asks for
// nothing and says nothing that the slow path would have to look after.
func (q *qp) ordinary(h head) bool {
	return h.ce() != wqe.CEEvent && (h.place() == place(q.num, q.sq.done) || !q.misplacedNews(h))
}

// completeFast ends q's next WQE and completes it, if that is asked for, with the
// bytes that it has brought. It returns false when there was no room for the
// completion, which puts q into error.
func (sh *shard) completeFast(q *qp, h head, bytes uint64) bool {
	counter := uint16(q.sq.done)
	q.sq.done++
	if h.ce() != wqe.CEAlways ||
		sh.complete(q.sq.cq, 0, q.uidx, 0, uint32(bytes), sh.clock(), requesterTail(h.opcode(), q.num, counter), quietly) {
		return true
	}
	sh.overrun(q.sq.cq)
	sh.setError(q)
	return false
}
