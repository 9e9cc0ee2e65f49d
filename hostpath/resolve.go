package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
)

// resolve finds the work request that c completes, and frees the blocks or the receive of
// that work request. c was parsed from e, the entry at q.ci. If there is no such work
// request, resolve returns false, and c is not reported.
func (q *CQ) resolve(c *Completion, o cqe.OpOwn, e *shm.Block) bool {
	qp := q.table.find(c.UIdx)
	if qp == nil || qp.QPN != c.QPN {
		q.stale++
		q.returnReceive(c)
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
		q.explain(c, nil)
	}
	if !ok {
		q.bad++
	}
	return ok
}

// completeSend completes the WQE at wqe_counter. It frees the blocks of that WQE and of all
// earlier WQEs: one CQE says that all of them are done, whether signaled or not. o tells
// whether the CQE carries data.
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
		c.Opcode = ops[s.op()].wc
		if c.HasByteLen() { // a masked atomic
			c.ByteLen = be.Uint32(e[cqe.OffByteCount:])
		}
	}
	if c.Kind == cqe.ReqErr {
		c.Opcode = ops[s.op()].wc // undefined in verbs; without this it would read as SEND
		q.explain(c, sq.stack(count))
		sq.fail(c)
	}
	if o.Format() != cqe.FormatPlain {
		q.scatterSend(c, o, sq, count, s)
	}
	sq.release(count, s)
	return true
}

// completeRecv completes the receive that wqe_counter names. In an RQ, wqe_counter is the
// count of the receive. In an SRQ, it is the index of the entry.
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
