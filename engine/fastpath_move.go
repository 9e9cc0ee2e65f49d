//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// fastInlineWrite is how many bytes of inline data a WRITE of one block can have.
const fastInlineWrite = wqe.BlockSize - dataOffset - wqe.InlineHead

// fastMove is fastPath for WRITEs and READs between q and its peer p.
func (sh *executor) fastMove(q, p *qp, from shm.Ring, most, budget int) (done, cost int, moved uint64) {
	var local, remote *mkey
	var lkey, rkey uint32
	for done < most && cost < budget {
		b := from.At(q.sq.done)
		h := head{b.Word(0), b.Word(1)}
		op := h.opcode()
		need, ok := q.fastRight(p, op)
		if !ok {
			break
		}
		// The data segment is checked first, because a WQE with more than one data segment
		// is the most frequent reason to leave the fast path.
		length := b.Word(4) // byte_count:32 lkey:32
		n := length >> 32
		var near []byte
		if n&wqe.InlineFlag != 0 {
			n &^= wqe.InlineFlag
			if n == 0 || n > fastInlineWrite || op != wqe.OpRDMAWrite || h.ds() != 2+int(wqe.InlineHead+n+wqe.UnitSize-1)/wqe.UnitSize {
				break
			}
			near = b[dataOffset+wqe.InlineHead:][:n]
			local = nil
		} else {
			if n == 0 || n > fastBytes || n > fastCost && n > uint64(budget-cost) || h.ds() != 3 {
				break
			}
			if k := uint32(length); local == nil || lkey != k {
				if local, lkey = sh.keys.find(k), k; local == nil {
					break
				}
			}
			if local.pd != q.pd || op == wqe.OpRDMARead && local.access&control.AccessLocalWrite == 0 {
				break
			}
			if near, ok = local.span(b.Word(5), n); !ok {
				break
			}
		}
		if !q.ordinary(h) {
			break
		}
		if k := uint32(b.Word(3) >> 32); remote == nil || rkey != k {
			if remote, rkey = sh.keys.find(k), k; remote == nil {
				break
			}
		}
		if !remote.serves(p) || remote.access&need == 0 {
			break
		}
		far, ok := remote.span(b.Word(2), n)
		if !ok {
			break
		}
		if k := q.series(h, n, min(most-done, (budget-cost)/max(int(n), fastCost))); k > 1 {
			if k = sh.moveSeries(q, from, &moveShape{h.first, length, rkey, local, remote}, k); k == 0 {
				break // the WQE has been changed
			}
			done += k
			cost += k * max(int(n), fastCost)
			moved += uint64(k) * n
			continue
		}
		bytes := uint64(0) // byte count of the completion
		if op == wqe.OpRDMARead {
			copy(near, far)
			bytes = n
		} else {
			copy(far, near)
		}
		done++
		cost += max(int(n), fastCost)
		moved += n
		if !sh.completeFast(q, h, bytes) {
			break
		}
	}
	return done, cost, moved
}

// fastRight returns the right that the remote key must give for a WRITE or a READ from q
// to its peer p. ok says whether the operation can take the fast path.
func (q *qp) fastRight(p *qp, op wqe.Opcode) (need uint32, ok bool) {
	if op != wqe.OpRDMAWrite && op != wqe.OpRDMARead || q.fastOps>>op&1 == 0 {
		return 0, false
	}
	info := op.Info()
	need = uint32(info.Remote)
	return need, p.attr.Access&need != 0 && (!info.Reads || p.attr.MaxDestRdAtomic != 0)
}
