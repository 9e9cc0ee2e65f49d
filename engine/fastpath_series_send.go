//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A sendShape is what the SENDs of a series, and the receives that they use, have in common.
type sendShape struct {
	first  uint64 // first word of the control segment of the first WQE
	length uint64 // byte_count:32 lkey:32 of the data segment; with inline data, the low half is the first 4 bytes of data
	local  *mkey  // nil if the data are inline
	piece  uint64 // byte_count:32 lkey:32 of the first data segment of the receives
	remote *mkey
}

// sendSeries executes the next WQEs of q, at most the parameter most, as long as they have the
// shape m. There is room for the completions of all, and q's peer p has receives for them. It
// returns how many it executed. fastSend has judged the first WQE, but if the client has changed it
// or its receive since, the result is 0.
func (sh *executor) sendSeries(q, p *qp, from shm.Ring, m *sendShape, most int) (done int) {
	n := m.length >> 32 &^ wqe.InlineFlag
	near, nearBase, nearLast, differs := m.local.payloads(n)
	// The whole piece of a receive must be in memory of the key, as for the slow path.
	far, farBase := m.remote.mem, m.remote.base
	farLast := uint64(len(far)) - m.piece>>32
	length, piece := m.length, m.piece
	sh.series = series{noneExecuted, wqe.OpSend, n}
	first, x, receive := m.first, noneExecuted, p.rq.done
	for end := noneExecuted << most; x < end; first = nextFirst(first) {
		b := from.At(first >> 40)
		second := b.Word(1)
		entry := receive & p.rq.mask << p.rq.stride
		if (b.Word(0)^first)|second&^asksForCompletion|(b.Word(2)^length)&differs != 0 || shm.BE64At(p.rq.ring, entry).Observe() != piece {
			break
		}
		to := shm.BE64At(p.rq.ring, entry+8).Observe() - farBase
		if to > farLast {
			break
		}
		if m.local == nil {
			move(far[to:to+n], b[wqe.CtrlSize+wqe.InlineHead:][:n])
		} else {
			at := b.Word(3) - nearBase
			if at > nearLast {
				break
			}
			move(far[to:to+n], near[at:at+n])
		}
		receive++
		x = x<<1 | executed(second/asksForCompletion)
		sh.series.executed = x // if moving the bytes of the next WQE faults, these have been executed
	}
	return sh.endSeries(q)
}
