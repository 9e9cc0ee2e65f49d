//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/atomics"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// checkAtomic checks the operands of an atomic and the local memory for its result. Then it sends
// the request to the responder, which executes the atomic at once, as an atomic operation on the
// target. After that, the job only has to deliver the old value.
//
// The operands are big-endian in the WQE. The target is a word in host order. An old value
// of 8 bytes is delivered in host order, and one of 4 bytes in big-endian order, as clients
// of hardware expect.
func (sh *requester) checkAtomic(q *object.QP, j *object.Job, info *wqe.Info) object.Verdict {
	ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	size := ctrl.OperandSize()
	if size == 0 {
		return sh.badOpcode(q, j)
	}
	raddr, v := sh.addressed(q, j, info)
	if v != object.Accepted {
		return v
	}
	operand := raddr + wqe.RaddrSize
	data := operand + wqe.UnitSize
	if ctrl.Opcode == wqe.OpAtomicMaskedCS && size == 8 {
		data += wqe.UnitSize
	}
	end := j.Head.DS() * wqe.UnitSize
	if end < data {
		return sh.tooSmall(q, j, data/wqe.UnitSize)
	}
	if v := sh.gather(q, j, &j.Dst, data, end, uint32(info.Local)); v != object.Accepted {
		return v
	}
	if j.Total != uint64(size) {
		switch {
		case end == data:
			sh.Explain(q, codes.DSSmall, "ds %d is too small for %v, which has its result in one unit more", j.Head.DS(), j.Head.Opcode())
		case j.Dst.N > 1 && j.Dst.Piece[0].N == uint64(size):
			sh.Explain(q, codes.DSLarge, "%v: ds %d counts units behind the %d bytes of its result", j.Head.Opcode(), j.Head.DS(), size)
		default:
			sh.Explain(q, codes.AtomicResult, "%v of %d bytes with room for %d", j.Head.Opcode(), size, j.Total)
		}
		return sh.Fail(q, j, cqe.LocalLength)
	}
	if cqe.WCOpcode(info.WC) != cqe.WCFromPost { // libmlx5 takes no result of a masked atomic out of a CQE
		j.CarryResult(q)
	}
	sh.parseRaddr(j, raddr)
	j.Request.Operand = sh.Scratch.WQE[operand:data]
	return sh.request(q, j, info, &j.Src)
}

// misaligned answers an atomic whose address is not a multiple of its length. A NIC finds that in the packet,
// before it looks for the key.
func (sh *requester) misaligned(q *object.QP, j *object.Job) object.Answer {
	r := &j.Request
	sh.ExplainRequester(q, j, codes.AtomicAlignment, "%v on address %#x, which is not a multiple of %d", r.Op, r.Addr, r.Length)
	return sh.RefuseRequest(j.Peer, control.EventInvalidRequest, object.AnswerInvalidRequest)
}

// executeAtomic executes the atomic of j on the word in the list far. Afterwards the list
// holds the old value instead, which is in the shard's scratch.
func (sh *requester) executeAtomic(q *object.QP, j *object.Job, far *object.List) object.Answer {
	r := &j.Request
	size := int(r.Length)
	target := far.Peek(r.Length)
	if !target.Aligned(size) {
		sh.ExplainRequester(q, j, codes.AtomicAlignment, "%v on address %#x: its %d bytes do not lie together on a multiple of %d in memory; "+
			"the key counts from another place", r.Op, r.Addr, size, size)
		return sh.RefuseRequest(j.Peer, control.EventInvalidRequest, object.AnswerInvalidRequest)
	}
	old, ok := uint64(0), false
	if target.Process != nil {
		var g object.Gap
		if old, g, ok = sh.updateUnmapped(r.Op, target, r.Operand); !ok {
			return sh.UnreachableHere(q, j, g)
		}
	} else if old, ok = atomics.Update(r.Op, target.Mem, r.Operand); !ok {
		return object.AnswerAgain // other programs have changed the word at each attempt
	}
	far.Reset()
	far.Add(atomics.PutOld(&sh.Scratch.Old, old, size), nil, 0, r.Length)
	return object.AnswerACK
}
