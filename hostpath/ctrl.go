package hostpath

import "github.com/nicless/nicless/wqe"

// The control segment of a WQE: its two words, and the bits of fm_ce_se in the second word.
//
// A WQE gets a fence for one of two reasons. Its SendWR has the flag Fence, or the WQE before it
// changes keys (opInfo.nextFence). An SQ remembers the second reason in SQ.nextFence. The posters
// of a SharedSQ tell it each other by a mark (see sequence.reserve).

// makeFlags returns the field fm_ce_se for each value of Flags. If sigAll is true, every WQE
// delivers a completion.
func makeFlags(sigAll bool) (table [allFlags + 1]uint8) {
	for f := range table {
		if Flags(f)&Fence != 0 {
			table[f] |= wqe.FenceVerbs
		}
		if Flags(f)&Signaled != 0 || sigAll {
			table[f] |= wqe.CEAlways
		}
		if Flags(f)&Solicited != 0 {
			table[f] |= wqe.FlagSolicited
		}
	}
	return table
}

// flags returns the field fm_ce_se of a WQE. fence is the fence that the WQE needs because of
// the WQE before it, or 0.
func (q *SendRing) flags(f Flags, fence uint8) uint8 {
	c := q.flagTable[f&allFlags]
	if f&Fence == 0 { // FenceVerbs includes the small fence
		c |= fence
	}
	return c
}

// nextMark returns the mark of a reservation whose last request is wr: the constant mark if
// the WQE after wr must be fenced, and 0 if not.
func nextMark(wr *SendWR) uint64 {
	if ops[wr.Op].nextFence != 0 {
		return mark
	}
	return 0
}

// fenceFor returns the fence of a WQE if the reservation before the WQE has the mark previous.
func fenceFor(previous uint64) uint8 {
	if previous != 0 {
		return wqe.FenceSmall
	}
	return 0
}

// firstWord returns the first word of a control segment, without DS.
func (q *SendRing) firstWord(count uint64, op *opInfo) wqe.OpWord {
	return q.base | wqe.MakeOpWord(op.code, uint16(count), 0, 0)
}

// secondWord returns the second word of a control segment.
func (q *SendRing) secondWord(wr *SendWR, op *opInfo, fence uint8) wqe.FlagWord {
	return wqe.MakeFlagWord(q.flags(wr.Flags, fence), wr.Imm&op.imm)
}

// putControl writes a control segment. It writes the same bytes as wqe.Ctrl.Put, but in two stores. A
// wqe.Ctrl has too many fields for registers and would first be assembled in memory, byte by byte.
func putControl(b *[wqe.BlockSize]byte, first wqe.OpWord, second wqe.FlagWord) {
	wqe.PutUnit((*[wqe.UnitSize]byte)(b[:]), uint64(first), uint64(second))
}
