package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
)

// resolve finds the work request that c, parsed from the entry e at q.ci,
// completes, and frees its blocks or its receive. It returns false if there is
// none; c is not reported then.
func (q *CQ) resolve(c *Completion, o cqe.OpOwn, e *shm.Block) bool {
	qp := q.table.find(c.UIdx)
	if qp == nil || qp.QPN != c.QPN {
		q.stale++
		q.adopt(c)
		return false
	}
	c.Timestamp = 0
	ok := false
	switch c.Kind {
	case cqe.Req:
		c.Timestamp = be.Uint64(e[cqe.OffTimestamp:])
		ok = q.completeSend(c, o, e, qp.SQ)
	case cqe.ReqErr:
		ok = q.completeSend(c, 0, e, qp.SQ)
	case cqe.RespWriteImm, cqe.RespSend, cqe.RespSendImm, cqe.RespSendInv:
		c.Timestamp = be.Uint64(e[cqe.OffTimestamp:])
		ok = q.completeRecv(c, o, qp)
	case cqe.RespErr:
		c.Opcode = cqe.WCRecv
		ok = q.completeRecv(c, 0, qp)
	}
	if !ok {
		q.bad++
	}
	return ok
}

// completeSend completes the WQE at wqe_counter and frees it and all before
// it: one CQE says that those are done, signaled or not. o tells whether the
// CQE carries data.
func (q *CQ) completeSend(c *Completion, o cqe.OpOwn, e *shm.Block, sq *SendRing) bool {
	if sq == nil {
		return false
	}
	count, s, ok := sq.find(c.Counter)
	if !ok {
		return false
	}
	c.ID = s.id
	if c.Kind == cqe.Req && c.Opcode == cqe.WCFromPost {
		if c.Opcode = ops[s.op()].wc; c.HasByteLen() { // a masked atomic
			c.ByteLen = be.Uint32(e[cqe.OffByteCount:])
		}
	}
	if c.Kind == cqe.ReqErr {
		c.Opcode = ops[s.op()].wc // verbs leaves it open, and it would read as SEND
		sq.fail(c)
	}
	if o.Format() != cqe.FormatPlain {
		q.scatterSend(c, o, sq, count, s)
	}
	sq.release(count, s)
	return true
}

// completeRecv completes the receive that wqe_counter names: by its count in
// an RQ, by the index of its entry in an SRQ.
func (q *CQ) completeRecv(c *Completion, o cqe.OpOwn, qp *QP) bool {
	if srq := qp.SRQ; srq != nil {
		id, ok := srq.take(c.Counter)
		if !ok {
			return false
		}
		c.ID = id
		if o.Format() != cqe.FormatPlain {
			q.scatterRecv(c, o, srq.list(c.Counter))
		}
		srq.give(c.Counter)
		return true
	}
	if qp.RQ == nil {
		return false
	}
	count, id, ok := qp.RQ.find(c.Counter)
	if !ok {
		return false
	}
	c.ID = id
	if o.Format() != cqe.FormatPlain {
		q.scatterRecv(c, o, qp.RQ.entry(count))
	}
	qp.RQ.release(count)
	return true
}
