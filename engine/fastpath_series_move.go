//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A moveShape is what the WRITEs or READs of a series have in common.
type moveShape struct {
	first  uint64 // first word of the control segment of the first WQE
	length uint64 // byte_count:32 lkey:32 of the data segment; with inline data, the low half is the first 4 bytes of data
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
func (sh *executor) moveSeries(q *qp, from shm.Ring, m *moveShape, most int) (done int) {
	n := m.length >> 32 &^ wqe.InlineFlag
	near, nearBase, nearLast, differs := m.local.payloads(n)
	far, farBase := m.remote.mem, m.remote.base
	farLast := uint64(len(far)) - n
	length, rkey := m.length, uint64(m.rkey)<<32
	op := wqe.Opcode(m.first >> 32)
	sh.series = series{noneExecuted, op, n}
	first, x := m.first, noneExecuted
	for end := noneExecuted << most; x < end; first = nextFirst(first) {
		b := from.At(first >> 40)
		second := b.Word(1)
		if (b.Word(0)^first)|second&^asksForCompletion|(b.Word(4)^length)&differs|(b.Word(3)^rkey)>>32 != 0 {
			break
		}
		to := b.Word(2) - farBase
		if to > farLast {
			break
		}
		if m.local == nil {
			move(far[to:to+n], b[dataOffset+wqe.InlineHead:][:n])
		} else {
			at := b.Word(5) - nearBase
			if at > nearLast {
				break
			}
			if op == wqe.OpRDMARead {
				move(near[at:at+n], far[to:to+n])
			} else {
				move(far[to:to+n], near[at:at+n])
			}
		}
		x = x<<1 | executed(second/asksForCompletion)
		sh.series.executed = x // if moving the bytes of the next WQE faults, these have been executed
	}
	return sh.endSeries(q)
}
