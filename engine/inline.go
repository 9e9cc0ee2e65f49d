//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Inline data of completions ("scatter to CQE"): short data that come for a queue pair are put
// into the CQE. The client copies them, when it polls the CQE, to the memory that its work
// request names. The work request is judged as usual, so that its mistakes are found.

// carryInline is called when q is made. flags are those of control.QP.Scatter. As with mlx5,
// messages are put into CQEs on connected transports, and results on reliable connections.
func (q *qp) carryInline(flags uint8) {
	q.fastOps = q.allowed
	if flags&control.ScatterResponder != 0 && (q.transport == control.QPTypeRC || q.transport == control.QPTypeUC) {
		q.rq.inline = q.rq.cq.mostInline()
	}
	if flags&control.ScatterRequester != 0 && q.transport == control.QPTypeRC {
		q.sq.inline = q.sq.cq.mostInline()
		q.fastOps &^= 1<<wqe.OpRDMARead | 1<<wqe.OpAtomicFA | 1<<wqe.OpAtomicCS
	}
}

// mostInline returns how many bytes of data an entry of q has room for.
func (q *cq) mostInline() uint8 {
	if q.logCQE == 7 {
		return cqe.MaxInline64
	}
	return cqe.MaxInline32
}

// carryResult lets the result of q's READ or atomic go into the CQE, if it is short enough. A
// WQE that asks for no completion has no CQE.
func (j *job) carryResult(q *qp) {
	if uint64(q.sq.inline) >= j.total && j.total > 0 && q.wire == nil && j.head.ce() >= wqe.CEAlways {
		j.carry(&j.dst, q.sq.cq)
	}
}

// carryMessage lets the message go into the CQE of the receive that j has opened, if it is
// short enough.
func (j *job) carryMessage() {
	if q := j.peer; uint64(q.rq.inline) >= j.total && j.total > 0 {
		j.carry(&j.dst, q.rq.cq)
	}
}

// carry lets the bytes of j go into an entry of c, in place of the memory in the list to. c may
// have been resized since its queue pair was made, and have shorter entries now. The client
// copies the bytes to the addresses in its work request, so keys must give addresses of the
// client. Addresses of lists, and those that count from elsewhere, are no addresses of the client.
func (j *job) carry(to *list, c *cq) {
	if j.total > uint64(c.mostInline()) {
		return
	}
	for i := range to.n {
		if k := to.piece[i].key; k == nil || k.from != k.base || k.room > 0 {
			return
		}
	}
	to.reset()
	to.add(j.carried[:j.total], nil, 0, j.total)
	j.carries = true
}

// completeInline is complete for a completion that carries data. Entries of 128 bytes have the
// data in their first half. Other entries have at most 32 bytes of data, in place of the fields
// that are there.
//
// Publish: CQE tail. Observed by hostpath.CQ.Poll.
func (sh *completer) completeInline(q *cq, data []byte, rqpn, uidx, imm uint32, tail cqe.Tail, a attention) bool {
	entries := uint64(1) << (q.log & 63)
	if q.next-q.seen >= entries && !q.ignore && !q.room(entries) {
		return false
	}
	index := q.next
	slot := index & (entries - 1)
	if q.collapsed {
		if q.held != 0 {
			q.next++
			sh.tell(q, a)
			return true // the error in entry 0 stays
		}
		slot = 0
	}
	if a == solicited {
		tail |= cqe.Tail(cqe.SolicitedBit)
	}
	block := q.entry(slot)
	cqe.PutBody((*[cqe.Size]byte)(block), rqpn, uidx, imm, uint32(len(data)), sh.clock())
	format, room := cqe.FormatInline32, block[:cqe.MaxInline32]
	if q.logCQE == 7 {
		format, room = cqe.FormatInline64, q.buf[slot<<7:][:cqe.MaxInline64]
		clear(room)
	}
	copy(room, data)
	block.PublishTail(uint64((tail | cqe.Tail(format)<<2).Owned(index, q.log)))
	q.next = index + 1 // done last, so that a CQE whose stores fault does not count as written
	q.client.count[control.CounterCQEs]++
	if a != quietly || q.armed {
		sh.tell(q, a)
	}
	return true
}
