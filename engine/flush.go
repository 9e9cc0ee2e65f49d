//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// vendor maps a syndrome to the vendor byte with which hardware was observed to report it.
var vendor = [256]uint8{
	cqe.LocalProtection: 0x52, cqe.Flush: 0xf9, cqe.RemoteInvalidRequest: 0x8a,
	cqe.RemoteAccess: 0x88, cqe.TransportRetry: 0x81,
}

// requesterError writes the error completion of the WQE at the head of q.
func (sh *queues) requesterError(q *qp, h head, s cqe.Syndrome) {
	if h.ce() == wqe.CEFirstError && q.failed {
		return
	}
	q.failed = true
	if !sh.completeError(q.sq.cq, q.uidx, s, cqe.MakeTail(q.num, uint8(h.opcode()), uint16(q.sq.done), 0, cqe.MakeOpOwn(cqe.ReqErr, cqe.FormatPlain, false, 0))) {
		sh.overrun(q.sq.cq)
	}
}

// receiveError completes the next receive of p's own receive queue with syndrome s.
func (sh *queues) receiveError(p *qp, s cqe.Syndrome) {
	ok := sh.completeError(p.rq.cq, p.uidx, s, responderTail(p.num, uint16(p.rq.done), cqe.RespErr))
	p.rq.done++
	if !ok {
		sh.overrun(p.rq.cq)
	}
}

// flush completes the WQEs of a QP in error with error completions, in order and within the
// budget of a step. It flushes WQEs that were announced before the error and WQEs announced
// since, and also unsignaled WQEs.
func (sh *queues) flush(q *qp) (done int) {
	for n := sh.pending(q); n > 0 && done < sh.cfg.burst; done++ {
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
		return done // receives of an SRQ stay in it, and SQE stops the send queue only
	}
	for n := q.posted(); n > 0 && done < sh.cfg.burst; done++ {
		sh.receiveError(q, cqe.Flush)
		n--
	}
	return done
}

// snapshotHead copies the next WQE and puts its control segment into the scratch job, so
// that an error can be reported for it. It returns false when there is no next WQE.
func (sh *queues) snapshotHead(q *qp) bool {
	if sh.pending(q) == 0 {
		return false
	}
	sh.snapshot(q)
	sh.scratch.job.head = parseHead((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	sh.scratch.job.blocks = sh.scratch.job.head.blocks()
	return true
}
