//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A sendShape is what the SENDs of a series, and the receives that they use, have in common.
type sendShape struct {
	first  wqe.OpWord // of the first WQE
	data   wqe.DataWord
	local  *object.Mkey // nil if the data are inline
	piece  wqe.DataWord // of the first data segment of the receives
	remote *object.Mkey
}

// executeSends executes the next WQEs of q, at most the parameter most, as long as they have the
// shape m. There is room for the completions of all, and q's peer p has receives for them. It
// returns how many it executed. fastSend has checked the first WQE, but if the client has changed it
// or its receive since, the result is 0. It counts as executeMoves does.
func (sh *Executor) executeSends(q, p *object.QP, from shm.Ring, m *sendShape, most int) (done int) {
	n := m.data.ByteCount()
	local, nearBase, nearLast, same := m.local.Payloads(n)
	// The whole piece of a receive must be in memory of the key, as for the slow path.
	near, far, farBase := shm.AreaOf(local), shm.AreaOf(m.remote.Mem), m.remote.Base
	farLast := uint64(len(m.remote.Mem)) - m.piece.ByteCount() // rule: all of a receive is memory of its key
	data, piece := m.data, uint64(m.piece)
	s, receive := &sh.series, p.RQ.Done
	*s = series{0, 0, wqe.OpSend, n}
	for first := m.first; s.done < most; first = first.Next() {
		b := from.At(uint64(first.Index()))
		h := HeadOf(b)
		entry := receive & p.RQ.Mask << p.RQ.Stride
		if wqe.Unlike(h.First, first, h.Second, wqe.DataWord(b.Word(wqe.WordSendData)), data, same) != 0 {
			break
		}
		if shm.BE64At(p.RQ.Ring, entry).Observe() != piece { // rule: the receives of a series are alike
			break
		}
		to := shm.BE64At(p.RQ.Ring, entry+wqe.DataAddr).Observe() - farBase
		if to > farLast {
			break
		}
		dst, src := far.From(to), b.Area().From(wqe.SendInlineAt)
		if m.local != nil {
			at := b.Word(wqe.WordSendLAddr) - nearBase
			if at > nearLast {
				break
			}
			src = near.From(at)
		}
		if fewBytes(n) {
			moveFew(dst, src, n)
		} else {
			dst.Copy(src, n)
		}
		receive++
		s.done++
		s.signaled = s.signaled<<1 | uint64(h.Second/wqe.MayDifferFlag)
	}
	return sh.completeSeries(q)
}
