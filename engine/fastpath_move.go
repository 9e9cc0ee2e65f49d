//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// fastMove is fastPath for WRITEs and READs between q and its peer p.
func (sh *executor) fastMove(q, p *qp, from shm.Ring, most, budget int) (done, cost int, moved uint64) {
	var local, remote *mkey
	var lkey, rkey uint32
	for done < most && cost < budget {
		b := from.At(q.sq.done)
		h := headOf(b)
		op := h.first.Opcode()
		need, ok := q.fastRight(p, op)
		if !ok {
			break
		}
		// The data segment is checked first, because a WQE with more than one data segment
		// is the most frequent reason to leave the fast path.
		data := wqe.DataWord(b.Word(wqe.WordMoveData))
		n, ok := wqe.AdmitShort(h.first, data, wqe.UnitsBeforeMove, fastBytes)
		if !ok || n > fastCost && n > uint64(budget-cost) {
			break
		}
		var near []byte
		if data.Inline() {
			near = b[wqe.MoveInlineAt:][:n] // rule: inline data of a WRITE begin after their length
			local = nil
		} else {
			if k := data.LKey(); local == nil || lkey != k {
				if local, lkey = sh.keys.find(k), k; local == nil {
					break
				}
			}
			if local.pd != q.pd ||
				op == wqe.OpRDMARead && local.access&control.AccessLocalWrite == 0 { // rule: READs may write to their memory
				break
			}
			if near, ok = local.span(b.Word(wqe.WordMoveLAddr), n); !ok {
				break
			}
		}
		if !q.ordinary(h) {
			break
		}
		if k := wqe.KeyWord(b.Word(wqe.WordRKey)).RKey(); remote == nil || rkey != k {
			if remote, rkey = sh.keys.find(k), k; remote == nil {
				break
			}
		}
		if !remote.serves(p) || // rule: the remote key of a WRITE or READ is one of the peer
			remote.access&need == 0 { // rule: the remote key gives the right
			break
		}
		far, ok := remote.span(b.Word(wqe.WordRAddr), n)
		if !ok {
			break
		}
		if k := seriesLength(q, h, n, min(most-done, (budget-cost)/max(int(n), fastCost))); k > 1 {
			if k = sh.executeMoves(q, from, &moveShape{h.first, data, rkey, local, remote}, k); k == 0 {
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
			bytes = n // rule: a READ reports its bytes
		} else {
			copy(far, near) // rule: a WRITE moves all bytes
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
	return need, p.attr.Access&need != 0 && // rule: the peer gives the right
		(!info.Reads || p.attr.MaxDestRdAtomic != 0) // rule: the peer takes READs
}
