//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// fastMove is FastPath for WRITEs and READs between q and its peer p. The first is expected to have the
// opcode expect.
func (sh *Executor) fastMove(q, p *object.QP, from shm.Ring, expect wqe.Opcode,
	most, budget int) (done, cost int) {
	moved := uint64(0)
	sh.apart = nic.Flows{}
	var local, remote *object.Mkey
	var lkey, rkey uint32
	for done < most && cost < budget {
		b := from.At(q.SQ.Done)
		h := HeadOf(b)
		op := h.First.Opcode()
		need, ok := q.FastRight(p, op)
		if !ok {
			break
		}
		// The data segment is checked first, because a WQE with more than one data segment
		// is the most frequent reason to leave the fast path.
		data := wqe.DataWord(b.Word(wqe.WordMoveData))
		n, ok := wqe.AdmitShort(h.First, data, wqe.UnitsBeforeMove, FastBytes)
		if !ok || n > fastCost && n > uint64(budget-cost) {
			break
		}
		var near []byte
		if data.Inline() {
			near = b[wqe.MoveInlineAt:][:n] // rule: inline data of a WRITE begin after their length
			local = nil
		} else {
			if k := data.LKey(); local == nil || lkey != k {
				if local, lkey = sh.Keys.Find(k), k; local == nil {
					break
				}
			}
			if local.PD != q.PD ||
				(op == wqe.OpRDMARead &&
					local.Access&control.AccessLocalWrite == 0) { // rule: READs may write to their memory
				break
			}
			if near, ok = local.Span(b.Word(wqe.WordMoveLAddr), n); !ok {
				break
			}
		}
		if !q.Ordinary(h) {
			break
		}
		if k := wqe.KeyWord(b.Word(wqe.WordRKey)).RKey(); remote == nil || rkey != k {
			if remote, rkey = sh.Keys.Find(k), k; remote == nil {
				break
			}
		}
		if !remote.Serves(p) || // rule: the remote key of a WRITE or READ is one of the peer
			remote.Access&need == 0 { // rule: the remote key gives the right
			break
		}
		far, ok := remote.Span(b.Word(wqe.WordRAddr), n)
		if !ok {
			break
		}
		k := 0
		if most-done > 1 {
			k = seriesLength(q, h, n, min(most-done, (budget-cost)/max(int(n), fastCost)))
		}
		if k > 1 {
			if k = sh.executeMoves(q, from, &moveShape{h.First, data, rkey, local, remote}, k); k == 0 {
				break // the WQE has been changed
			}
			if op != expect || n > fastCost {
				traffic.Odd(q, p, &sh.apart, expect, op, uint64(k), n)
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
		if op != expect || n > fastCost {
			traffic.Odd(q, p, &sh.apart, expect, op, 1, n)
		}
		done++
		cost += max(int(n), fastCost)
		moved += n
		if !sh.completeFast(q, h, bytes) {
			break
		}
	}
	if done > 0 {
		traffic.Burst(q, p, expect, uint64(done), moved)
		if sh.apart.Messages > 0 {
			traffic.Except(q, p, expect, sh.apart)
		}
	}
	return done, cost
}
