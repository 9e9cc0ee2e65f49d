//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// fastBytes is the longest payload in bytes that takes the fast path. fastCost is how many
// bytes of a visit's budget a WQE uses at least.
const (
	fastBytes = 4096
	fastCost  = 256
)

// fastPath executes WQEs of q as long as they are of the most common kinds: WRITEs and
// READs of one short piece, SENDs of one piece into one piece, and fetch-and-add and
// compare-and-swap of 8 bytes. The parameter most bounds how many WQEs it executes, and
// budget bounds their cost in bytes. It returns how many WQEs it has executed, and how much
// of the budget they have used.
//
// fastPath checks everything that the slow path checks. But it keeps its snapshot of a WQE
// (a few words) and the results in registers, because with each store that is avoided the
// processor can fetch one more cache line from the other side at the same time. It leaves
// anything unusual to the slow path, which copies the WQE again, judges it and explains what
// is wrong. If fastPath is ended by a fault of memory, the WQEs that it executed before the
// fault are missing in the client's counters, except those of the series that the fault has cut off.
//
// TestFastPathAgrees and FuzzFastPathAgrees compare the fast path with the slow path.
func (sh *executor) fastPath(q *qp, most, budget int) (done, cost int) {
	return sh.fastPathFrom(q, q.sq.blocks, most, budget)
}

// fastPathFrom is fastPath for WQEs in any memory. It is q's ring, or a snapshot of one block, in
// which every index means that one block.
func (sh *executor) fastPathFrom(q *qp, from shm.Ring, most, budget int) (done, cost int) {
	p := q.conn.peer
	if !q.fastPath || sh.hooks.noFastPath || !q.connected(p) {
		return 0, 0
	}
	moved := uint64(0)
	// This read only chooses the function. The function reads the WQE again.
	first := wqe.OpWord(from.At(q.sq.done).Word(wqe.WordOp))
	switch first.Opcode() {
	case wqe.OpRDMAWrite, wqe.OpRDMARead:
		done, cost, moved = sh.fastMove(q, p, from, most, budget)
	case wqe.OpSend, wqe.OpSendImm:
		done, cost, moved = sh.fastSend(q, p, from, most, budget)
		if p.rq.cq.session != nil {
			sh.writeSession(p.rq.cq)
		}
	case wqe.OpAtomicCS, wqe.OpAtomicFA:
		done, cost, moved = sh.fastAtomic(q, p, from, most, budget)
	}
	if q.sq.cq.session != nil {
		sh.writeSession(q.sq.cq)
	}
	if done > 0 {
		count := &q.client.count
		count[control.CounterWQEs] += uint64(done)
		count[control.CounterBytes] += moved // rule: bytes are counted
	}
	return done, cost
}

// headOf loads the control segment of a WQE that its client can change.
func headOf(b *shm.Block) head {
	return head{wqe.OpWord(b.Word(wqe.WordOp)), wqe.FlagWord(b.Word(wqe.WordFlag))}
}

// ordinary reports whether the fast path can handle the control segment of q's next WQE:
// it asks for no event, and nothing about it has to be explained.
func (q *qp) ordinary(h head) bool {
	return h.second.CE() != wqe.CEEvent && (h.first.Place() == place(q.num, q.sq.done) ||
		!q.misplacedNews(h)) // rule: a wrong index is explained
}

// completeFast ends q's next WQE. If the WQE asks for a completion, completeFast writes one,
// whose byte count is the parameter bytes. If there is no room for the completion, it puts q
// into error and returns false.
func (sh *executor) completeFast(q *qp, h head, bytes uint64) bool {
	counter := uint16(q.sq.done)
	q.sq.done++
	if h.second.CE() != wqe.CEAlways { // rule: only signaled WQEs complete
		return true
	}
	tail := requesterTail(h.first.Opcode(), q.num, counter)
	if q.sq.cq.session != nil {
		if sh.collectSend(q, uint32(bytes), tail) {
			return true
		}
	} else if sh.complete(q.sq.cq, 0, q.uidx, 0, uint32(bytes), sh.clock(), tail,
		quietly) { // rule: completions of the fast path raise no event
		return true
	}
	sh.overrun(q.sq.cq)
	sh.setError(q)
	return false
}
