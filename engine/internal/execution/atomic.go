//go:build linux && (amd64 || arm64)

package execution

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
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

// executeAtomic executes the atomic of j on the word in the list far. Afterwards the list
// holds the old value instead, which is in the shard's scratch.
func (sh *requester) executeAtomic(q *object.QP, j *object.Job, far *object.List) object.Answer {
	r := &j.Request
	size := int(r.Length)
	target := far.Peek(r.Length)
	switch {
	case r.Addr%r.Length != 0:
		sh.ExplainRequester(q, j, codes.AtomicAlignment, "%v on address %#x, which is not a multiple of %d", r.Op, r.Addr, size)
		return sh.RefuseRequest(j.Peer, control.EventInvalidRequest, object.AnswerInvalidRequest)
	case !target.Aligned(size):
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
	} else if old, ok = sh.update(r.Op, target.Mem, r.Operand); !ok {
		return object.AnswerAgain // other programs have changed the word at each attempt
	}
	if size == 4 {
		binary.BigEndian.PutUint32(sh.Scratch.Old[:], uint32(old))
	} else {
		binary.LittleEndian.PutUint64(sh.Scratch.Old[:], old)
	}
	far.Reset()
	far.Add(sh.Scratch.Old[:size], nil, 0, r.Length)
	return object.AnswerACK
}

// update executes one atomic on the word in target and returns the old value. ok is false
// if other programs changed the word at each attempt; then the word is unchanged.
func (sh *requester) update(op wqe.Opcode, target, operand []byte) (old uint64, ok bool) {
	switch {
	case op == wqe.OpAtomicFA:
		return shm.Add(target, wqe.ParseAtomic((*[wqe.AtomicSize]byte)(operand)).SwapAdd), true
	case op == wqe.OpAtomicCS:
		a := wqe.ParseAtomic((*[wqe.AtomicSize]byte)(operand))
		return shm.CompareAndSwap(target, a.Compare, a.SwapAdd)
	case op == wqe.OpAtomicMaskedCS && len(target) == 8:
		m := wqe.ParseMaskedCS8((*[wqe.MaskedCS8Size]byte)(operand))
		return shm.Update(target, func(old uint64) uint64 { return maskedSwap(m, old) })
	case op == wqe.OpAtomicMaskedCS:
		m := wqe.ParseMaskedCS4((*[wqe.MaskedCS4Size]byte)(operand))
		w := wqe.MaskedCS8{Swap: uint64(m.Swap), Compare: uint64(m.Compare), SwapMask: uint64(m.SwapMask),
			CompareMask: uint64(m.CompareMask)}
		return shm.Update(target, func(old uint64) uint64 { return maskedSwap(w, old) })
	case len(target) == 8:
		m := wqe.ParseMaskedFA8((*[wqe.MaskedFA8Size]byte)(operand))
		return shm.Update(target, func(old uint64) uint64 { return MaskedAdd(old, m.Add, m.Boundary) })
	default:
		m := wqe.ParseMaskedFA4((*[wqe.MaskedFA4Size]byte)(operand))
		return shm.Update(target, func(old uint64) uint64 {
			return MaskedAdd(old, uint64(m.Add), uint64(m.Boundary))
		})
	}
}

// maskedSwap returns the new value of a word. If old equals Compare in the bits of
// CompareMask, the bits of SwapMask are taken from Swap.
func maskedSwap(m wqe.MaskedCS8, old uint64) uint64 {
	if (old^m.Compare)&m.CompareMask != 0 {
		return old
	}
	return old&^m.SwapMask | m.Swap&m.SwapMask
}

// MaskedAdd adds two words field by field. Each set bit of boundary is the top bit of a
// field. The lower bits of all fields are added together, so that no carry leaves a field.
// The top bits are added by exclusive or.
func MaskedAdd(old, add, boundary uint64) uint64 {
	return (old&^boundary + add&^boundary) ^ (old^add)&boundary
}
