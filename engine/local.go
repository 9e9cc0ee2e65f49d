package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Operations that no peer takes part in.

// judgeDump judges a DUMP: a local read whose bytes go nowhere. Clients use it
// to learn that everything before it is done.
func (sh *shard) judgeDump(q *qp, j *job) bool {
	end := j.head.ds() * wqe.UnitSize
	if !sh.gather(q, j, &j.src, wqe.CtrlSize, end, 0) {
		return false
	}
	j.total = 0
	return true
}

// judgeMMO judges a memory-to-memory copy between two local keys.
func (sh *shard) judgeMMO(q *qp, j *job) bool {
	const source = wqe.CtrlSize + wqe.MMOMetaSize
	const target = source + wqe.DataSize
	ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	end := j.head.ds() * wqe.UnitSize
	if ctrl.OpMod != wqe.OpModMMODMA {
		return sh.badOpcode(q, j)
	}
	if end < target+wqe.DataSize {
		return sh.badSize(q, j, 0)
	}
	if !sh.gather(q, j, &j.dst, target, target+wqe.DataSize, control.AccessLocalWrite) {
		return false
	}
	n := j.total
	if !sh.gather(q, j, &j.src, source, source+wqe.DataSize, 0) {
		return false
	}
	if j.total != n {
		sh.explain(q, codeMMOLength, "DMA copy of %d bytes to a place of %d; they must be equal", j.total, n)
		return sh.fail(q, j, cqe.LocalLength)
	}
	return true
}

// judgeWait lets the queue wait until a completion queue of this client has
// reached an index. WAIT on memory and on time are not executed.
func (sh *shard) judgeWait(q *qp, j *job) bool {
	c, w, ok := sh.waitTarget(q, j)
	if !ok {
		return false
	}
	if c.reached(w.Index) {
		return true
	}
	sh.stallFor(q, stall{kind: behindCQ, forever: true, cq: c, index: w.Index})
	return false
}

func (sh *shard) waitTarget(q *qp, j *job) (*cq, wqe.Wait, bool) {
	ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	if ctrl.OpMod != wqe.OpModWaitCQ {
		return nil, wqe.Wait{}, sh.badOpcode(q, j)
	}
	if j.head.ds() < 2 {
		return nil, wqe.Wait{}, sh.badSize(q, j, 0)
	}
	w := wqe.ParseWait((*[wqe.WaitSize]byte)(sh.scratch.wqe[wqe.CtrlSize:]))
	c := q.client.cqs[w.Number&0xffffff]
	if c == nil {
		sh.explain(q, codeWaitCQ, "WAIT on CQ %#06x, which this client does not have", w.Number)
		return nil, w, sh.fail(q, j, cqe.LocalQPOp)
	}
	return c, w, true
}

// reached reports whether the producer index of a queue has come to index.
// Both count 32 bits and wrap.
func (c *cq) reached(index uint32) bool { return int32(uint32(c.next)-index) >= 0 }

// judgeSendEnable lets another queue of this client, made for it, execute up to
// a producer counter.
func (sh *shard) judgeSendEnable(q *qp, j *job) bool {
	if j.head.ds() < 2 {
		return sh.badSize(q, j, 0)
	}
	w := wqe.ParseWait((*[wqe.WaitSize]byte)(sh.scratch.wqe[wqe.CtrlSize:]))
	p := q.client.qps[w.Number&0xffffff]
	if p == nil {
		sh.explain(q, codeEnableQP, "SEND_EN of QP %#06x, which this client does not have", w.Number)
		return sh.fail(q, j, cqe.LocalQPOp)
	}
	if ahead := uint16(w.Index) - uint16(p.sq.enabled); uint64(ahead) <= p.sq.mask+1 {
		p.sq.enabled += uint64(ahead)
		sh.markWarm(p)
	}
	return true
}
