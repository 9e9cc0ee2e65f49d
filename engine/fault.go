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

// requesterError writes the error completion of the WQE at the head of q.
func (sh *shard) requesterError(q *qp, h head, s cqe.Syndrome) {
	if h.ce() == wqe.CEFirstError && q.failed {
		return
	}
	q.failed = true
	if !sh.completeError(q.sq.cq, q.uidx, s, cqe.MakeTail(q.num, uint8(h.opcode()), uint16(q.sq.done), 0, cqe.MakeOpOwn(cqe.ReqErr, cqe.FormatPlain, false, 0))) {
		sh.overrun(q.sq.cq)
	}
}

// receiveError flushes the next receive of p's own queue.
func (sh *shard) receiveError(p *qp, s cqe.Syndrome) {
	ok := sh.completeError(p.rq.cq, p.uidx, s, responderTail(p.num, uint16(p.rq.done), cqe.RespErr))
	p.rq.done++
	if !ok {
		sh.overrun(p.rq.cq)
	}
}

// flush completes what is in the queues of a QP in error, in order and within
// the budget of a step: WQEs that were announced before and those that come
// now, unsignaled ones too.
func (sh *shard) flush(q *qp) (done int) {
	for n := sh.pending(q); n > 0 && done < sh.cfg.Burst; done++ {
		if !sh.snapshotHead(q) {
			break
		}
		blocks := min(max(sh.scratch.job.blocks, 1), int(n))
		s := cqe.Flush
		if q.faulted != 0 {
			s, q.faulted = q.faulted, 0
		}
		sh.requesterError(q, sh.scratch.job.head, s)
		q.sq.done += uint64(blocks)
		n -= uint16(blocks)
	}
	if q.rq.srq != nil || q.attr.State == control.StateSQE {
		return done // what nobody has taken stays in a shared queue; and SQE ends the send side only
	}
	for n := q.posted(); n > 0 && done < sh.cfg.Burst; done++ {
		sh.receiveError(q, cqe.Flush)
		n--
	}
	return done
}

// snapshotHead copies the next WQE and puts its control segment into the scratch job,
// for an error to be reported on it. It returns false when there is none.
func (sh *shard) snapshotHead(q *qp) bool {
	if sh.pending(q) == 0 {
		return false
	}
	sh.snapshot(q)
	sh.scratch.job.head = parseHead((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	sh.scratch.job.blocks = sh.scratch.job.head.blocks()
	return true
}

// What follows says in words what a client did wrong, once it is known that it
// did. Each returns failed, for judge to hand on.

func (sh *shard) badRecord(q *qp, word uint32) {
	if q.suspicion.record == word+1 {
		return
	}
	q.suspicion.record = word + 1
	why := q.whyNoRecord(word)
	sh.explainQueue(q, why.code, "%s", why)
}

func (sh *shard) badSize(q *qp, j *job, n uint16) verdict {
	switch {
	case j.blocks == 0:
		sh.explain(q, codeDSZero, "ds is 0; a WQE has at least its control segment, ds 1")
	case n > 0:
		sh.explain(q, codeDSPastRecord, "ds %d is %d blocks, but the record announces %d; ring after the whole WQE is written", j.head.ds(), j.blocks, n)
	default:
		sh.explain(q, codeDSSmall, "ds %d is too small for %v, which needs at least %d", j.head.ds(), j.head.opcode(), j.head.opcode().Info().LeastUnits(wqe.Transport(q.transport)))
	}
	return sh.fail(q, j, cqe.LocalQPOp)
}

func (sh *shard) badSignature(q *qp, j *job) verdict {
	sh.explain(q, codeSignature, "signature %#02x, the bytes give %#02x", j.head.signature(), wqe.Sign(sh.scratch.wqe[:j.head.ds()*wqe.UnitSize]))
	return sh.fail(q, j, cqe.LocalQPOp)
}

func (sh *shard) badOpcode(q *qp, j *job) verdict {
	sh.explain(q, codeOpcode, "opcode %v (%#02x) is not executed by this device on %s", j.head.opcode(), uint8(j.head.opcode()), transports[q.transport].name)
	return sh.fail(q, j, cqe.LocalQPOp)
}

func (sh *shard) badInline(q *qp, j *job, size, off, end int) verdict {
	if off > end {
		sh.explain(q, codeInlineRange, "inline data of %d bytes ends at byte %d of a WQE of %d (ds %d)", size, off, end, j.head.ds())
	} else {
		sh.explain(q, codeInlineRead, "%v with inline data; there is nowhere to put the answer", j.head.opcode())
	}
	return sh.fail(q, j, cqe.LocalQPOp)
}

func (sh *shard) tooLong(q *qp, j *job, total, most uint64) verdict {
	sh.explain(q, codeMessageSize, "message of %d bytes; at most %d are possible", total, most)
	return sh.fail(q, j, cqe.LocalLength)
}

func (sh *shard) badLocal(q *qp, j *job, d wqe.Data, need uint32) verdict {
	if j.tooManyUnits(d) {
		sh.explain(q, codeDSLarge, "%v: ds %d counts a unit that is no data segment (byte_count %#x, lkey %#08x)", j.head.opcode(), j.head.ds(), d.ByteCount, d.LKey)
	} else {
		why := sh.whyNoAccess(localUse(d, need, q, q.pd))
		sh.explain(q, why.code, "%v: %s", j.head.opcode(), why)
	}
	return sh.fail(q, j, cqe.LocalProtection)
}

// tooManyUnits reports whether d, which is at fault, is rather no data segment
// at all: it is all zeros behind others, or follows the result of an atomic,
// which has one.
func (j *job) tooManyUnits(d wqe.Data) bool {
	switch op := j.head.opcode(); {
	case op == wqe.OpMMO:
		return false
	case op.Info().Atomic():
		return j.dst.n > 0
	}
	return d == wqe.Data{} && j.src.n+j.dst.n > 0
}
