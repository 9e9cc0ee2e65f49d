//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The operations in this file have no peer.

// checkDump checks a DUMP: a local read whose bytes go nowhere. Its completion says that
// everything before it in the queue is done.
func (sh *requester) checkDump(q *object.QP, j *object.Job) object.Verdict {
	end := j.Head.DS() * wqe.UnitSize
	if v := sh.gather(q, j, &j.Src, wqe.CtrlSize, end, 0); v != object.Accepted {
		return v
	}
	j.Total = 0
	sh.Sched.Effort += j.Src.N * object.PieceCost // no bytes are moved, so the pieces cost nothing later
	return object.Accepted
}

// checkMMO checks a memory-to-memory copy between two local keys.
func (sh *requester) checkMMO(q *object.QP, j *object.Job) object.Verdict {
	const source = wqe.CtrlSize + wqe.MMOMetaSize
	const target = source + wqe.DataSize
	ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	if ctrl.OpMod != wqe.OpModMMODMA {
		return sh.badOpcode(q, j)
	}
	if q.TooShort(j, wqe.OpMMO.Info()) {
		return sh.badSize(q, j, 0)
	}
	if v := sh.gather(q, j, &j.Dst, target, target+wqe.DataSize,
		control.AccessLocalWrite); v != object.Accepted {
		return v
	}
	n := j.Total
	if v := sh.gather(q, j, &j.Src, source, source+wqe.DataSize, 0); v != object.Accepted {
		return v
	}
	if j.Total != n {
		sh.Explain(q, codes.MMOLength, "DMA copy of %d bytes to a place of %d; they must be equal", j.Total, n)
		return sh.Fail(q, j, cqe.LocalLength)
	}
	return object.Accepted
}

// checkWait checks a WAIT. It makes the queue wait until a completion queue of this client
// has reached the index that the WQE names. WAIT on memory and WAIT on time are not executed.
func (sh *requester) checkWait(q *object.QP, j *object.Job) object.Verdict {
	ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	if ctrl.OpMod != wqe.OpModWaitCQ {
		return sh.badOpcode(q, j)
	}
	if q.TooShort(j, wqe.OpWait.Info()) {
		return sh.badSize(q, j, 0)
	}
	w := wqe.ParseWait((*[wqe.WaitSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:]))
	c := q.Client.CQs[w.Number&0xffffff]
	if c == nil {
		sh.Explain(q, codes.WaitCQ, "WAIT on CQ %#06x, which this client does not have", w.Number)
		return sh.Fail(q, j, cqe.LocalQPOp)
	}
	if c.Reached(w.Index) {
		return object.Accepted
	}
	sh.StallFor(q, object.Stall{Kind: object.BehindCQ, Forever: true, CQ: c, Index: w.Index})
	return object.Waiting
}

// checkSendEnable checks a SEND_EN. It lets a managed send queue of this client execute its
// blocks up to the producer counter that the WQE names.
func (sh *requester) checkSendEnable(q *object.QP, j *object.Job) object.Verdict {
	if q.TooShort(j, wqe.OpSendEn.Info()) {
		return sh.badSize(q, j, 0)
	}
	w := wqe.ParseWait((*[wqe.WaitSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:]))
	p := q.Client.QPs[w.Number&0xffffff]
	if p == nil {
		sh.Explain(q, codes.EnableQP, "SEND_EN of QP %#06x, which this client does not have", w.Number)
		return sh.Fail(q, j, cqe.LocalQPOp)
	}
	if ahead := uint16(w.Index) - uint16(p.SQ.Enabled); uint64(ahead) <= p.SQ.Mask+1 {
		p.SQ.Enabled += uint64(ahead)
		sh.MarkWarm(p)
	}
	return object.Accepted
}
