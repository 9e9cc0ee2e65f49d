//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A moveShape is what the WRITEs or READs of a series have in common.
type moveShape struct {
	first  wqe.OpWord // of the first WQE
	data   wqe.DataWord
	rkey   uint32
	local  *object.Mkey // nil if the data are inline
	remote *object.Mkey
}

// executeMoves executes the next WQEs of q, at most the parameter most, as long as they have
// the shape m. There is room for the completions of all. It returns how many it executed. fastMove
// has checked the first WQE, but if the client has changed it since, the result is 0.
//
// The loop counts in sh.series, because it has more variables than there are registers. If moving
// the bytes of a WQE faults, the series has the WQEs before it.
func (sh *Executor) executeMoves(q *object.QP, from shm.Ring, m *moveShape, most int) (done int) {
	n := m.data.ByteCount()
	local, nearBase, nearLast, same := m.local.Payloads(n)
	near, far, farBase := shm.AreaOf(local), shm.AreaOf(m.remote.Mem), m.remote.Base
	farLast := uint64(len(m.remote.Mem)) - n
	data, rkey := m.data, m.rkey
	op := m.first.Opcode()
	s := &sh.series
	*s = series{0, 0, op, n}
	for first := m.first; s.done < most; first = first.Next() {
		b := from.At(uint64(first.Index()))
		h := HeadOf(b)
		d := wqe.DataWord(b.Word(wqe.WordMoveData))
		if wqe.Unlike(h.First, first, h.Second, d, data, same) != 0 { // rule: WQEs of a series are alike
			break
		}
		if wqe.KeyWord(b.Word(wqe.WordRKey)).RKey() != rkey { // rule: a series has one remote key
			break
		}
		to := b.Word(wqe.WordRAddr) - farBase
		if to > farLast { // rule: a series stays in the remote memory
			break
		}
		dst, src := far.From(to), b.Area().From(wqe.MoveInlineAt)
		if m.local != nil {
			at := b.Word(wqe.WordMoveLAddr) - nearBase
			if at > nearLast { // rule: a series stays in the local memory
				break
			}
			src = near.From(at)
			if op == wqe.OpRDMARead {
				dst, src = src, dst
			}
		}
		if fewBytes(n) {
			moveFew(dst, src, n)
		} else {
			dst.Copy(src, n)
		}
		s.done++
		s.signaled = s.signaled<<1 | uint64(h.Second/wqe.MayDifferFlag)
	}
	return sh.completeSeries(q)
}
