//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The operations in this file have no peer.

// judgeDump judges a DUMP: a local read whose bytes go nowhere. Its completion says that
// everything before it in the queue is done.
func (sh *requester) judgeDump(q *qp, j *job) verdict {
	end := j.head.ds() * wqe.UnitSize
	if v := sh.gather(q, j, &j.src, wqe.CtrlSize, end, 0); v != accepted {
		return v
	}
	j.total = 0
	sh.sched.effort += j.src.n * pieceCost // no bytes are moved, so the pieces cost nothing later
	return accepted
}

// judgeMMO judges a memory-to-memory copy between two local keys.
func (sh *requester) judgeMMO(q *qp, j *job) verdict {
	const source = wqe.CtrlSize + wqe.MMOMetaSize
	const target = source + wqe.DataSize
	ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	if ctrl.OpMod != wqe.OpModMMODMA {
		return sh.badOpcode(q, j)
	}
	if q.tooShort(j, wqe.OpMMO.Info()) {
		return sh.badSize(q, j, 0)
	}
	if v := sh.gather(q, j, &j.dst, target, target+wqe.DataSize, control.AccessLocalWrite); v != accepted {
		return v
	}
	n := j.total
	if v := sh.gather(q, j, &j.src, source, source+wqe.DataSize, 0); v != accepted {
		return v
	}
	if j.total != n {
		sh.explain(q, codes.MMOLength, "DMA copy of %d bytes to a place of %d; they must be equal", j.total, n)
		return sh.fail(q, j, cqe.LocalLength)
	}
	return accepted
}

// judgeWait judges a WAIT. It makes the queue wait until a completion queue of this client
// has reached the index that the WQE names. WAIT on memory and WAIT on time are not executed.
func (sh *requester) judgeWait(q *qp, j *job) verdict {
	ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	if ctrl.OpMod != wqe.OpModWaitCQ {
		return sh.badOpcode(q, j)
	}
	if q.tooShort(j, wqe.OpWait.Info()) {
		return sh.badSize(q, j, 0)
	}
	w := wqe.ParseWait((*[wqe.WaitSize]byte)(sh.scratch.wqe[wqe.CtrlSize:]))
	c := q.client.cqs[w.Number&0xffffff]
	if c == nil {
		sh.explain(q, codes.WaitCQ, "WAIT on CQ %#06x, which this client does not have", w.Number)
		return sh.fail(q, j, cqe.LocalQPOp)
	}
	if c.reached(w.Index) {
		return accepted
	}
	sh.stallFor(q, stall{kind: behindCQ, forever: true, cq: c, index: w.Index})
	return waiting
}

// reached reports whether the producer index of a completion queue has reached index. Both
// indices have 32 bits and wrap.
func (c *cq) reached(index uint32) bool { return int32(uint32(c.next)-index) >= 0 }

// judgeSendEnable judges a SEND_EN. It lets a managed send queue of this client execute its
// blocks up to the producer counter that the WQE names.
func (sh *requester) judgeSendEnable(q *qp, j *job) verdict {
	if q.tooShort(j, wqe.OpSendEn.Info()) {
		return sh.badSize(q, j, 0)
	}
	w := wqe.ParseWait((*[wqe.WaitSize]byte)(sh.scratch.wqe[wqe.CtrlSize:]))
	p := q.client.qps[w.Number&0xffffff]
	if p == nil {
		sh.explain(q, codes.EnableQP, "SEND_EN of QP %#06x, which this client does not have", w.Number)
		return sh.fail(q, j, cqe.LocalQPOp)
	}
	if ahead := uint16(w.Index) - uint16(p.sq.enabled); uint64(ahead) <= p.sq.mask+1 {
		p.sq.enabled += uint64(ahead)
		sh.markWarm(p)
	}
	return accepted
}
