//go:build linux && (amd64 || arm64)

// Package atomics computes the atomics of WQEs. Package execution decides which atomic works on which word.
package atomics

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// Update executes the atomic op, which is one that has a word of its size, on the word in target, and returns
// the old value. The operand is that of a WQE, and as long as op and the size of target want. ok is false if
// other programs changed the word at each attempt; then the word is unchanged.
func Update(op wqe.Opcode, target, operand []byte) (old uint64, ok bool) {
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

// PutOld puts the old value of a word of size bytes, 4 or 8, into b as mlx5 delivers it, and returns these
// bytes: 8 in host order, or 4 in big-endian order.
func PutOld(b *[8]byte, old uint64, size int) []byte {
	if size == 4 {
		binary.BigEndian.PutUint32(b[:], uint32(old))
	} else {
		binary.LittleEndian.PutUint64(b[:], old)
	}
	return b[:size]
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
