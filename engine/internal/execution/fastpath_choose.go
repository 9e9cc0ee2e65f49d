//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// FastPath executes WQEs of q as long as they are of the most common kinds: WRITEs and
// READs of one short piece, SENDs of one piece into one piece, and fetch-and-add and
// compare-and-swap of 8 bytes. The parameter most bounds how many WQEs it executes, and
// budget bounds their cost in bytes. It returns how many WQEs it has executed, and how much
// of the budget they have used.
//
// FastPath checks everything that the slow path checks. But it keeps its snapshot of a WQE (a few
// words) and the results in registers, because with each store that is avoided the processor can
// fetch one more cache line from the other side at the same time. It leaves anything unusual to the
// slow path, which copies the WQE again, checks it and explains what is wrong. If FastPath is ended
// by a fault of memory, the WQEs that it executed before the fault are missing in the client's
// counters, except those of the series that the fault has cut off.
//
// TestFastPathAgrees and FuzzFastPathAgrees compare the fast path with the slow path.
func (sh *Executor) FastPath(q *object.QP, most, budget int) (done, cost int) {
	return sh.FastPathFrom(q, q.SQ.Blocks, most, budget)
}

// FastPathFrom is FastPath for WQEs in any memory. It is q's ring, or a snapshot of one block, in
// which every index means that one block.
func (sh *Executor) FastPathFrom(q *object.QP, from shm.Ring, most, budget int) (done, cost int) {
	p := q.Conn.Peer
	if !q.FastPath || sh.Hooks.NoFastPath || !q.Connected(p) {
		return 0, 0
	}
	// This read only chooses the function. The function reads the WQE again.
	first := wqe.OpWord(from.At(q.SQ.Done).Word(wqe.WordOp))
	op := first.Opcode()
	switch op {
	case wqe.OpRDMAWrite, wqe.OpRDMARead:
		done, cost = sh.fastMove(q, p, from, op, most, budget)
	case wqe.OpSend, wqe.OpSendImm:
		done, cost = sh.fastSend(q, p, from, most, budget)
		if p.RQ.CQ.Session != nil {
			sh.WriteSession(p.RQ.CQ)
		}
	case wqe.OpAtomicCS, wqe.OpAtomicFA:
		done, cost = sh.fastAtomic(q, p, from, most, budget)
	}
	if q.SQ.CQ.Session != nil {
		sh.WriteSession(q.SQ.CQ)
	}
	return done, cost
}
