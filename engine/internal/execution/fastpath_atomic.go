//go:build linux && (amd64 || arm64)

package execution

import (
	"encoding/binary"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// fastAtomicBytes is how many bytes an atomic works on that takes the fast path.
const fastAtomicBytes = 8

// fastAtomic is FastPath for fetch-and-add and compare-and-swap on 8 bytes of p's memory, with the
// result in one piece. The byte orders are the same as in checkAtomic.
func (sh *Executor) fastAtomic(q, p *object.QP, from shm.Ring,
	most, budget int) (done, cost int) {
	if q.FastOps>>wqe.OpAtomicFA&1 == 0 || p.Attr.MaxDestRdAtomic == 0 ||
		p.Attr.Access&control.AccessRemoteAtomic == 0 {
		return 0, 0
	}
	keys := &sh.Keys
	for done < most && cost < budget {
		b := from.At(q.SQ.Done)
		h := HeadOf(b)
		op := h.First.Opcode()
		if op != wqe.OpAtomicFA && op != wqe.OpAtomicCS {
			break
		}
		data := wqe.DataWord(b.Word(wqe.WordAtomicData))
		n, ok := wqe.AdmitShort(h.First, data, wqe.UnitsBeforeAtomic, fastAtomicBytes)
		if !ok || n != fastAtomicBytes {
			break
		}
		if !q.Ordinary(h) {
			break
		}
		local := keys.Find(data.LKey())
		if local == nil ||
			local.PD != q.PD || // rule: the result goes to memory of the domain
			local.Access&control.AccessLocalWrite == 0 {
			break
		}
		near, ok := local.Span(b.Word(wqe.WordAtomicLAddr), fastAtomicBytes)
		if !ok {
			break
		}
		remote := keys.Find(wqe.KeyWord(b.Word(wqe.WordRKey)).RKey())
		if remote == nil ||
			!remote.Serves(p) || // rule: the remote key of an atomic is one of the peer
			remote.Access&control.AccessRemoteAtomic == 0 { // rule: the remote key allows atomics
			break
		}
		addr := b.Word(wqe.WordRAddr)
		far, ok := remote.Span(addr, fastAtomicBytes)
		if !ok || addr%fastAtomicBytes != 0 || !shm.Aligned(far) {
			break
		}
		operand, old := b.Word(wqe.WordSwapAdd), uint64(0)
		if op == wqe.OpAtomicFA {
			old = shm.Add(far, operand) // rule: FETCH_ADD adds its operand
		} else {
			old, ok = shm.CompareAndSwap(far, b.Word(wqe.WordCompare), operand) // rule: CMP_SWAP compares
			if !ok {
				break // other programs have changed the word at each attempt
			}
		}
		binary.LittleEndian.PutUint64(near, old) // rule: the old value is in the order of the host
		done++
		cost += fastCost
		if !sh.completeFast(q, h, fastAtomicBytes) {
			break
		}
	}
	if done > 0 {
		traffic.Burst(q, p, wqe.OpAtomicFA, uint64(done), uint64(done)*fastAtomicBytes)
	}
	return done, cost
}
