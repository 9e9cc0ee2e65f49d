//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// The WQE of an atomic that takes the fast path is one block: a control segment, a remote
// address segment, the operands, and a data segment for the result.
const (
	fastAtomicUnits = wqe.BlockSize / wqe.UnitSize
	fastAtomicBytes = 8
)

// fastAtomic is fastPath for fetch-and-add and compare-and-swap on 8 bytes of p's memory,
// with the result in one piece. The byte orders are the same as in judgeAtomic.
func (sh *executor) fastAtomic(q, p *qp, from shm.Ring, most, budget int) (done, cost int, moved uint64) {
	if q.fastOps>>wqe.OpAtomicFA&1 == 0 || p.attr.MaxDestRdAtomic == 0 || p.attr.Access&control.AccessRemoteAtomic == 0 {
		return 0, 0, 0
	}
	keys := &sh.keys
	for done < most && cost < budget {
		b := from.At(q.sq.done)
		h := head{b.Word(0), b.Word(1)}
		op := h.opcode()
		length := b.Word(6) // byte_count:32 lkey:32
		if op != wqe.OpAtomicFA && op != wqe.OpAtomicCS || h.ds() != fastAtomicUnits ||
			length>>32 != fastAtomicBytes || !q.ordinary(h) {
			break
		}
		local := keys.find(uint32(length))
		if local == nil || local.pd != q.pd || local.access&control.AccessLocalWrite == 0 {
			break
		}
		near, ok := local.span(b.Word(7), fastAtomicBytes)
		if !ok {
			break
		}
		remote := keys.find(uint32(b.Word(3) >> 32))
		if remote == nil || !remote.serves(p) || remote.access&control.AccessRemoteAtomic == 0 {
			break
		}
		addr := b.Word(2)
		far, ok := remote.span(addr, fastAtomicBytes)
		if !ok || addr%fastAtomicBytes != 0 || !shm.Aligned(far) {
			break
		}
		operand, old := b.Word(4), uint64(0)
		if op == wqe.OpAtomicFA {
			old = shm.Add(far, operand)
		} else if old, ok = shm.CompareAndSwap(far, b.Word(5), operand); !ok {
			break // other programs have changed the word at each attempt
		}
		binary.LittleEndian.PutUint64(near, old)
		done++
		cost += fastCost
		moved += fastAtomicBytes
		if !sh.completeFast(q, h, fastAtomicBytes) {
			break
		}
	}
	return done, cost, moved
}
