//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A sendShape is what the SENDs of a series, and the receives that they use, have in common.
type sendShape struct {
	first  wqe.OpWord // of the first WQE
	data   wqe.DataWord
	local  *mkey        // nil if the data are inline
	piece  wqe.DataWord // of the first data segment of the receives
	remote *mkey
}

// executeSends executes the next WQEs of q, at most the parameter most, as long as they have the
// shape m. There is room for the completions of all, and q's peer p has receives for them. It
// returns how many it executed. fastSend has judged the first WQE, but if the client has changed it
// or its receive since, the result is 0. It counts as executeMoves does.
func (sh *executor) executeSends(q, p *qp, from shm.Ring, m *sendShape, most int) (done int) {
	n := m.data.ByteCount()
	near, nearBase, nearLast, same := m.local.payloads(n)
	// The whole piece of a receive must be in memory of the key, as for the slow path.
	far, farBase := m.remote.mem, m.remote.base
	farLast := uint64(len(far)) - m.piece.ByteCount() // rule: all of a receive is memory of its key
	data, piece := m.data, uint64(m.piece)
	s, receive := &sh.series, p.rq.done
	*s = series{0, 0, wqe.OpSend, n}
	for first := m.first; s.done < most; first = first.Next() {
		b := from.At(uint64(first.Index()))
		h := headOf(b)
		entry := receive & p.rq.mask << p.rq.stride
		if wqe.Unlike(h.first, first, h.second, wqe.DataWord(b.Word(wqe.WordSendData)), data, same) != 0 {
			break
		}
		if shm.BE64At(p.rq.ring, entry).Observe() != piece { // rule: the receives of a series are alike
			break
		}
		to := shm.BE64At(p.rq.ring, entry+wqe.DataAddr).Observe() - farBase
		if to > farLast {
			break
		}
		if m.local == nil {
			move(far[to:to+n], b[wqe.SendInlineAt:][:n])
		} else {
			at := b.Word(wqe.WordSendLAddr) - nearBase
			if at > nearLast {
				break
			}
			move(far[to:to+n], near[at:at+n])
		}
		receive++
		s.done++
		s.signaled = s.signaled<<1 | uint64(h.second/wqe.MayDifferFlag)
	}
	return sh.completeSeries(q)
}
