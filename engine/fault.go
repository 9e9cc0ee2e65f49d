package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// vendor is the vendor byte that hardware was seen to report beside a syndrome.
var vendor = [256]uint8{
	cqe.LocalProtection: 0x52, cqe.Flush: 0xf9, cqe.RemoteInvalidRequest: 0x8a,
	cqe.RemoteAccess: 0x88, cqe.TransportRetry: 0x81,
}

// fail completes the WQE at the head of q with an error, whatever its
// completion mode, and puts q into error. It returns false, for its callers to
// hand on.
func (e *lane) fail(q *qp, j *job, s cqe.Syndrome) bool {
	q.client.count[control.CounterWQEs]++
	q.client.count[control.CounterFailed]++
	e.requesterError(q, j.head, s)
	// A WQE that claims more blocks than were announced has those that were:
	// what is posted next is flushed from its first block on.
	q.sent += uint64(min(max(j.blocks, 1), max(int(e.pending(q)), 1)))
	e.putBack(j)
	e.sendError(q)
	return false
}

// requesterError writes the error completion of the WQE at the head of q.
func (e *lane) requesterError(q *qp, h head, s cqe.Syndrome) {
	if h.ce() == wqe.CEFirstError && q.failed {
		return
	}
	q.failed = true
	if !e.completeError(q.sendCQ, q.uidx, s, tail(h.opcode(), q.num, uint16(q.sent), cqe.ReqErr)) {
		e.overrun(q.sendCQ)
	}
}

// receiveError flushes the next receive of p's own queue.
func (e *lane) receiveError(p *qp, s cqe.Syndrome) {
	ok := e.completeError(p.recvCQ, p.uidx, s, tail(0, p.num, uint16(p.received), cqe.RespErr))
	p.received++
	if !ok {
		e.overrun(p.recvCQ)
	}
}

// flush completes what is in the queues of a QP in error, in order and within
// the budget of a step: WQEs that were announced before and those that come
// now, unsignaled ones too.
func (e *lane) flush(q *qp) (done int) {
	for n := e.pending(q); n > 0 && done < e.cfg.Burst; done++ {
		if !e.snapshotHead(q) {
			break
		}
		blocks := min(max(e.now.blocks, 1), int(n))
		s := cqe.Flush
		if q.faulted != 0 {
			s, q.faulted = q.faulted, 0
		}
		e.requesterError(q, e.now.head, s)
		q.sent += uint64(blocks)
		n -= uint16(blocks)
	}
	if q.srq != nil || q.attr.State == control.StateSQE {
		return done // what nobody has taken stays in a shared queue; and SQE ends the send side only
	}
	for n := q.posted(); n > 0 && done < e.cfg.Burst; done++ {
		e.receiveError(q, cqe.Flush)
		n--
	}
	return done
}

// snapshotHead copies the next WQE and puts its control segment into the scratch job,
// for an error to be reported on it. It returns false when there is none.
func (e *lane) snapshotHead(q *qp) bool {
	if e.pending(q) == 0 {
		return false
	}
	e.snapshot(q)
	e.now.head = parseHead((*[wqe.CtrlSize]byte)(e.wqe[:]))
	e.now.blocks = e.now.head.blocks()
	return true
}

// What follows says in words what a client did wrong, once it is known that it
// did. Each returns false, for judge to hand on.

func (e *lane) badRecord(q *qp, word uint32) {
	if q.lied == word+1 {
		return
	}
	q.lied = word + 1
	why := q.whyNoRecord(word)
	e.explainQueue(q, why.code, "%s", why)
}

func (e *lane) badSize(q *qp, j *job, n uint16) bool {
	switch {
	case j.blocks == 0:
		e.explain(q, codeDSZero, "ds is 0; a WQE has at least its control segment, ds 1")
	case n > 0:
		e.explain(q, codeDSPastRecord, "ds %d is %d blocks, but the record announces %d; ring after the whole WQE is written", j.head.ds(), j.blocks, n)
	default:
		e.explain(q, codeDSSmall, "ds %d is too small for %v, which needs at least %d", j.head.ds(), j.head.opcode(), q.leastUnits(j.head.opcode()))
	}
	return e.fail(q, j, cqe.LocalQPOp)
}

func (e *lane) badSignature(q *qp, j *job) bool {
	e.explain(q, codeSignature, "signature %#02x, the bytes give %#02x", j.head.signature(), wqe.Sign(e.wqe[:j.head.ds()*wqe.UnitSize]))
	return e.fail(q, j, cqe.LocalQPOp)
}

func (e *lane) badOpcode(q *qp, j *job) bool {
	e.explain(q, codeOpcode, "opcode %v (%#02x) is not executed by this device on %s", j.head.opcode(), uint8(j.head.opcode()), transports[q.transport].name)
	return e.fail(q, j, cqe.LocalQPOp)
}

func (e *lane) badInline(q *qp, j *job, size, off, end int) bool {
	if off > end {
		e.explain(q, codeInlineRange, "inline data of %d bytes ends at byte %d of a WQE of %d (ds %d)", size, off, end, j.head.ds())
	} else {
		e.explain(q, codeInlineRead, "%v with inline data; there is nowhere to put the answer", j.head.opcode())
	}
	return e.fail(q, j, cqe.LocalQPOp)
}

func (e *lane) tooLong(q *qp, j *job, total, most uint64) bool {
	e.explain(q, codeMessageSize, "message of %d bytes; at most %d are possible", total, most)
	return e.fail(q, j, cqe.LocalLength)
}

func (e *lane) badLocal(q *qp, j *job, d wqe.Data, need uint32) bool {
	if j.tooManyUnits(d) {
		e.explain(q, codeDSLarge, "%v: ds %d counts a unit that is no data segment (byte_count %#x, lkey %#08x)", j.head.opcode(), j.head.ds(), d.ByteCount, d.LKey)
	} else {
		why := e.whyNoAccess(localUse(d, need, q, q.pd))
		e.explain(q, why.code, "%v: %s", j.head.opcode(), why)
	}
	return e.fail(q, j, cqe.LocalProtection)
}

// tooManyUnits reports whether d, which is at fault, is rather no data segment
// at all: it is all zeros behind others, or follows the result of an atomic,
// which has one.
func (j *job) tooManyUnits(d wqe.Data) bool {
	switch j.head.opcode() {
	case wqe.OpMMO:
		return false
	case wqe.OpAtomicCS, wqe.OpAtomicFA, wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA:
		return j.dst.n > 0
	}
	return d == wqe.Data{} && j.src.n+j.dst.n > 0
}

// What a responder finds wrong ends both queue pairs on a reliable connection,
// and only the message on others.

func (e *lane) badRemote(q *qp, j *job, r wqe.Raddr, need uint32) bool {
	p := j.peer
	why := e.whyNoAccess(use{name: "rkey", key: r.RKey, addr: r.Addr, n: j.total, need: need, client: p.client, pd: p.pd, qp: p})
	if p.client != q.client && why.code != codeKeyByteOrder {
		// Whoever learned which keys are stale, and how far they reach, could
		// find one. The owner is told.
		e.explainQueue(p, why.code, "%v of peer QP %#06x: %s", j.head.opcode(), q.num, why)
		why = because(codeKeyRefused, "rkey %#08x does not give peer QP %#06x's memory, %d bytes at %#x; why is said to its owner",
			r.RKey, p.num, j.total, r.Addr)
	}
	e.explain(q, why.code, "%v: %s", j.head.opcode(), why)
	return e.nak(q, j, control.EventAccessError, cqe.RemoteAccess)
}

func (e *lane) refused(q *qp, j *job, what string) bool {
	e.explain(q, codePeerRefuses, "peer QP %#06x does not allow %s (%v): its access is %#x, its max_dest_rd_atomic %d",
		j.peer.num, what, j.head.opcode(), j.peer.attr.Access, j.peer.attr.MaxDestRdAtomic)
	return e.nak(q, j, control.EventInvalidRequest, cqe.RemoteInvalidRequest)
}

func (e *lane) badInvalidate(q *qp, j *job) bool {
	e.explain(q, codeSendInval, "SEND_INVAL of key %#08x: it is no memory window of type 2 that is bound to QP %#06x", j.head.imm(), j.peer.num)
	e.putBack(j)
	return e.nak(q, j, control.EventInvalidRequest, cqe.RemoteInvalidRequest)
}

// nak refuses a request on the responder's behalf.
func (e *lane) nak(q *qp, j *job, kind control.EventKind, s cqe.Syndrome) bool {
	if q.transport != control.QPTypeRC {
		return e.lose(q, j)
	}
	j.peer.client.event(kind, j.peer.num)
	e.setError(j.peer)
	return e.fail(q, j, s)
}

func (e *lane) badReceive(q *qp, j *job, entry []byte, unit int, d wqe.Data) bool {
	why := e.whyNoAccess(localUse(d, control.AccessLocalWrite, j.peer, j.peer.receivePD()))
	switch {
	case unit == 0 && d == wqe.Data{}:
		why = because(codeReceiveUnwritten, "its entry is all zeros; it was announced before it was written, or written elsewhere")
	case unit > 0 && (why.code == codeKeyUnknown || why.code == codeKeyStale):
		why = because(codeReceiveNoEnd, "its list goes on with unit %d: %s; to end it there, write byte_count 0 and lkey %#x", unit, why, wqe.KeyEnd)
	}
	e.explainReceive(j, entry, why.code, "receive %d: %s", j.index, why)
	if q.transport != control.QPTypeRC {
		return e.lose(q, j)
	}
	e.failReceive(j, cqe.LocalProtection)
	return e.fail(q, j, cqe.RemoteOperation)
}

func (e *lane) receiveTooShort(q *qp, j *job, entry []byte, left uint64) bool {
	e.explainReceive(j, entry, codeReceiveShort, "receive %d takes %d bytes, the message has %d", j.index, j.total-left, j.total)
	if q.transport != control.QPTypeRC {
		return e.lose(q, j)
	}
	e.failReceive(j, cqe.LocalLength)
	return e.fail(q, j, cqe.RemoteInvalidRequest)
}
