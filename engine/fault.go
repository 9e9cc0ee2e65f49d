package engine

import (
	"fmt"
	"math/bits"

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
func (e *Engine) fail(q *qp, j *job, s cqe.Syndrome) bool {
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
func (e *Engine) requesterError(q *qp, h head, s cqe.Syndrome) {
	if h.ce() == wqe.CEFirstError && q.failed {
		return
	}
	q.failed = true
	if !e.completeError(q.sendCQ, q.uidx, s, tail(h.opcode(), q.num, uint16(q.sent), cqe.ReqErr)) {
		e.overrun(q.sendCQ)
	}
}

// receiveError flushes the next receive of p's own queue.
func (e *Engine) receiveError(p *qp, s cqe.Syndrome) {
	ok := e.completeError(p.recvCQ, p.uidx, s, tail(0, p.num, uint16(p.received), cqe.RespErr))
	p.received++
	if !ok {
		e.overrun(p.recvCQ)
	}
}

// flush completes what is in the queues of a QP in error, in order and within
// the budget of a step: WQEs that were announced before and those that come
// now, unsignaled ones too.
func (e *Engine) flush(q *qp) (done int) {
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

// snapshotHead copies the control segment of the next WQE into the scratch job,
// for an error to be reported on it. It returns false when there is none.
func (e *Engine) snapshotHead(q *qp) bool {
	if e.pending(q) == 0 {
		return false
	}
	slot := q.sent & q.sqMask
	copy(e.wqe[:wqe.CtrlSize], q.sq[slot*wqe.BlockSize:])
	e.now.head = parseHead((*[wqe.CtrlSize]byte)(e.wqe[:]))
	e.now.blocks = e.now.head.blocks()
	return true
}

// What follows says in words what a client did wrong, once it is known that it
// did. Each returns false, for judge to hand on.

func (e *Engine) badRecord(q *qp, word uint32) {
	if q.lied == word+1 {
		return
	}
	q.lied = word + 1
	e.explain(q, "record-range", "send record says %#08x, which is %d blocks after the %#04x executed; the ring has %d. "+
		"The value is ignored. A record in host byte order, or one that went back, looks like this",
		word, uint16(word)-uint16(q.sent), uint16(q.sent), q.sqMask+1)
}

func (e *Engine) badSize(q *qp, j *job, n uint16) bool {
	switch {
	case j.blocks == 0:
		e.explain(q, "ds-zero", "ds is 0; a WQE has at least its control segment, ds 1")
	case n > 0:
		e.explain(q, "ds-past-record", "ds %d is %d blocks, but the record announces %d; ring after the whole WQE is written", j.head.ds(), j.blocks, n)
	default:
		e.explain(q, "ds-small", "ds %d is too small for %v, which needs at least %d", j.head.ds(), j.head.opcode(), dataOffset/wqe.UnitSize)
	}
	return e.fail(q, j, cqe.LocalQPOp)
}

func (e *Engine) badSignature(q *qp, j *job) bool {
	e.explain(q, "signature", "signature %#02x, the bytes give %#02x", j.head.signature(), wqe.Sign(e.wqe[:j.head.ds()*wqe.UnitSize]))
	return e.fail(q, j, cqe.LocalQPOp)
}

func (e *Engine) badOpcode(q *qp, j *job) bool {
	e.explain(q, "opcode", "opcode %v (%#02x) is not executed by this device on %s", j.head.opcode(), uint8(j.head.opcode()), transports[q.transport].name)
	return e.fail(q, j, cqe.LocalQPOp)
}

func (e *Engine) badInline(q *qp, j *job, size, off, end int) bool {
	if off > end {
		e.explain(q, "inline-range", "inline data of %d bytes ends at byte %d of a WQE of %d (ds %d)", size, off, end, j.head.ds())
	} else {
		e.explain(q, "inline-read", "%v with inline data; there is nowhere to put the answer", j.head.opcode())
	}
	return e.fail(q, j, cqe.LocalQPOp)
}

func (e *Engine) tooLong(q *qp, j *job, total, most uint64) bool {
	e.explain(q, "message-size", "message of %d bytes; at most %d are possible", total, most)
	return e.fail(q, j, cqe.LocalLength)
}

func (e *Engine) badLocal(q *qp, j *job, d wqe.Data, k *mkey, need uint32) bool {
	e.explain(q, "lkey", "%v: %s", j.head.opcode(), e.whyNoAccess("lkey", d.LKey, k, q.pd, need, d.Addr, d.Length()))
	return e.fail(q, j, cqe.LocalProtection)
}

// What a responder finds wrong ends both queue pairs on a reliable connection,
// and only the message on others.

func (e *Engine) badRemote(q *qp, j *job, r wqe.Raddr, k *mkey, need uint32) bool {
	e.explain(q, "rkey", "%v: %s", j.head.opcode(), e.whyNoAccess("rkey", r.RKey, k, j.peer.pd, need, r.Addr, j.total))
	return e.nak(q, j, control.EventAccessError, cqe.RemoteAccess)
}

func (e *Engine) refused(q *qp, j *job, what string) bool {
	e.explain(q, "responder-refuses", "peer QP %#06x does not allow %s (%v): its access is %#x, its max_dest_rd_atomic %d",
		j.peer.num, what, j.head.opcode(), j.peer.attr.Access, j.peer.attr.MaxDestRdAtomic)
	return e.nak(q, j, control.EventInvalidRequest, cqe.RemoteInvalidRequest)
}

func (e *Engine) badInvalidate(q *qp, j *job) bool {
	e.explain(q, "send-inval", "SEND_INVAL of key %#08x: it is no memory window of type 2 that is bound to QP %#06x", j.head.imm(), j.peer.num)
	e.putBack(j)
	return e.nak(q, j, control.EventInvalidRequest, cqe.RemoteInvalidRequest)
}

// nak refuses a request on the responder's behalf.
func (e *Engine) nak(q *qp, j *job, kind control.EventKind, s cqe.Syndrome) bool {
	if q.transport != control.QPTypeRC {
		return e.lose(q, j)
	}
	j.peer.client.event(kind, j.peer.num)
	e.setError(j.peer)
	return e.fail(q, j, s)
}

func (e *Engine) badReceive(q *qp, j *job, d wqe.Data, k *mkey) bool {
	e.explain(j.peer, "receive-lkey", "receive %d: %s", j.index,
		e.whyNoAccess("lkey", d.LKey, k, j.peer.receivePD(), control.AccessLocalWrite, d.Addr, d.Length()))
	if q.transport != control.QPTypeRC {
		return e.lose(q, j)
	}
	e.failReceive(j, cqe.LocalProtection)
	return e.fail(q, j, cqe.RemoteOperation)
}

func (e *Engine) receiveTooShort(q *qp, j *job, left uint64) bool {
	e.explain(j.peer, "receive-short", "receive %d takes %d bytes, the message has %d", j.index, j.total-left, j.total)
	if q.transport != control.QPTypeRC {
		return e.lose(q, j)
	}
	e.failReceive(j, cqe.LocalLength)
	return e.fail(q, j, cqe.RemoteInvalidRequest)
}

// whyNoAccess says why a key does not give access to a range.
func (e *Engine) whyNoAccess(name string, key uint32, k *mkey, p *pd, need uint32, addr, n uint64) string {
	switch {
	case k == nil && e.keys.find(bits.ReverseBytes32(key)) != nil:
		return fmt.Sprintf("%s %#08x names nothing, but %#08x does: it was stored in host byte order", name, key, bits.ReverseBytes32(key))
	case k == nil && e.keys.findIndex(key) != nil:
		return fmt.Sprintf("%s %#08x: the index exists, the variant %#02x is stale", name, key, key&0xff)
	case k == nil:
		return fmt.Sprintf("%s %#08x names no memory region", name, key)
	case k.free:
		return fmt.Sprintf("%s %#08x is not bound, or has been invalidated", name, key)
	case k.window != nil && name == "lkey":
		return fmt.Sprintf("lkey %#08x is of a memory window, which gives remote access only", key)
	case k.window != nil && k.window.pd == p:
		return fmt.Sprintf("%s %#08x is a window of QP %#06x, or lacks access or range", name, key, k.window.qpn)
	case k.domain() != p:
		return fmt.Sprintf("%s %#08x belongs to another protection domain than the QP", name, key)
	case k.access&need != need:
		return fmt.Sprintf("%s %#08x: access %#x lacks %#x", name, key, k.access, need&^k.access)
	case k.list != nil && !e.sound(k, need):
		return fmt.Sprintf("%s %#08x: an entry of its list is outside the memory that it names", name, key)
	}
	return fmt.Sprintf("%s %#08x: %d bytes at %#x are outside its %d bytes at %#x", name, key, n, addr, k.size, k.base)
}

// whyNoPeer says why q cannot reach its peer.
func (e *Engine) whyNoPeer(q *qp) string {
	p := e.qps[q.attr.DestQPN]
	switch {
	case p == nil:
		return fmt.Sprintf("peer QP %#06x does not exist", q.attr.DestQPN)
	case p.transport != q.transport:
		return fmt.Sprintf("peer QP %#06x is of another transport, %s", p.num, transports[p.transport].name)
	case p.attr.DestQPN != q.num && p.attr.State >= control.StateRTR:
		return fmt.Sprintf("peer QP %#06x is not connected back: its peer is %#06x", p.num, p.attr.DestQPN)
	}
	return fmt.Sprintf("peer QP %#06x is in state %s; it answers in RTR and RTS", p.num, stateName(p.attr.State))
}
