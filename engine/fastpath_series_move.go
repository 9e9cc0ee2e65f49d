//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A moveShape is what the WRITEs or READs of a series have in common.
type moveShape struct {
	first  wqe.OpWord // of the first WQE
	data   wqe.DataWord
	rkey   uint32
	local  *mkey // nil if the data are inline
	remote *mkey
}

// moveSeries executes the next WQEs of q, at most the parameter most, as long as they have
// the shape m. There is room for the completions of all. It returns how many it executed. fastMove
// has judged the first WQE, but if the client has changed it since, the result is 0.
//
// The loop changes few variables, so that they stay in registers: first holds the index of the
// next WQE, and x how many WQEs have been executed.
func (sh *shard) moveSeries(q *qp, from shm.Ring, m *moveShape, most int) (done int) {
	n := m.data.ByteCount()
	near, nearBase, nearLast, same := m.local.payloads(n)
	far, farBase := m.remote.mem, m.remote.base
	farLast := uint64(len(far)) - n
	data, rkey := m.data, m.rkey
	op := m.first.Opcode()
	sh.series = series{noneExecuted, op, n}
	first, x := m.first, noneExecuted
	for end := noneExecuted << most; x < end; first = first.Next() {
		b := from.At(uint64(first.Index()))
		h := headOf(b)
		if wqe.Unlike(h.first, first, h.second, wqe.DataWord(b.Word(wqe.WordMoveData)), data, same) != 0 ||
			wqe.KeyWord(b.Word(wqe.WordRKey)).RKey() != rkey {
			break
		}
		to := b.Word(wqe.WordRAddr) - farBase
		if to > farLast {
			break
		}
		if m.local == nil {
			move(far[to:to+n], b[wqe.MoveInlineAt:][:n])
		} else {
			at := b.Word(wqe.WordMoveLAddr) - nearBase
			if at > nearLast {
				break
			}
			if op == wqe.OpRDMARead {
				move(near[at:at+n], far[to:to+n])
			} else {
				move(far[to:to+n], near[at:at+n])
			}
		}
		x = x<<1 | executed(h.second/wqe.MayDifferFlag)
		sh.series.executed = x // if moving the bytes of the next WQE faults, these have been executed
	}
	return sh.endSeries(q)
}
