//go:build linux && (amd64 || arm64)

package announce

import (
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// Which words of a WQE the device uses. Clients leave the others as they are: the immediate of an opcode
// that has none, reserved words, the padding after inline data. They may still be the mark.

// words are those of the WQE at a block of a ring.
type words struct {
	ring shm.Ring
	at   uint64
	mark uint32

	// overdue: a word of data that is the mark by itself counts as written, because no store is on its way
	// for so long. One in 2^32 words of random data is the mark.
	overdue bool
}

// unit is the number of words of a unit, the piece in which DS counts.
const unit = wqe.UnitSize / 4

// word returns the word i of the WQE.
func (w words) word(i int) uint32 {
	v := w.ring.At(w.at + uint64(i)/(wqe.BlockSize/4)).Word(uint(i) % (wqe.BlockSize / 4) / 2)
	if i%2 == 0 {
		return uint32(v >> 32)
	}
	return uint32(v)
}

// A check demands the first n words of the next segment, which has so many.
type check func(n, of int)

// first returns the first of the n words from i on that is the mark, or -1. With alone, a mark counts that
// does not fill aligned 8 bytes together with another of these words; otherwise any mark does.
func (w words) first(i, n int, alone bool) int {
	for k := i; k < i+n; k++ {
		other := k ^ 1
		if w.word(k) == w.mark && !(alone && other >= i && other < i+n && w.word(other) == w.mark) {
			return k
		}
	}
	return -1
}

// pairs returns the first of the n words from i on that is the mark together with the other word of the same
// aligned 8 bytes, or -1.
func (w words) pairs(i, n int) int {
	for k := i; k < i+n; k++ {
		if k%2 == 0 && k+1 < i+n && w.word(k) == w.mark && w.word(k+1) == w.mark {
			return k
		}
	}
	return -1
}

// written reports whether all words have been written that the device uses of the WQE of ds units. If not,
// it returns why, and the offset of one that has not. In data, which can have any value, one word that is
// the mark without its neighbour is LateData, and counts as written when it is overdue.
func (w words) written(t wqe.Transport, ds int) (offset uint32, why LateKind) {
	end := ds * unit
	at := 0 // words that have been checked
	missing, alone := -1, -1
	need := func(n, of int) {
		if missing < 0 {
			missing = w.first(at, min(n, end-at), false)
		}
		at = min(at+of, end)
	}
	data := func(n, of int) {
		n = min(n, end-at)
		if missing < 0 {
			missing = w.pairs(at, n)
		}
		if alone < 0 && !w.overdue {
			alone = w.first(at, n, true)
		}
		at = min(at+of, end)
	}
	opcode := wqe.Opcode(w.word(0))
	info := opcode.Info()
	if info.Imm == wqe.ImmNone && info.Known() {
		need(3, unit)
	} else {
		need(3, 3)
		data(1, 1)
	}
	switch {
	case info.Transports == 0 || info.Operand == wqe.KindUnused:
		// It does nothing, or is refused.
	case info.Operand == wqe.KindWait:
		need(0, 2) // reserved
		need(2, 2) // and what follows has no meaning
	case info.Operand == wqe.KindMMOMeta:
		need(0, unit) // of the opaque area, which the device does not use
		need(end-at, end-at)
	case info.Imm == wqe.ImmMkey || (info.Operand != 0 && !info.Atomic()):
		need(end-at, end-at)
	default:
		w.segments(t, info, need, data, &at, end)
	}
	switch {
	case missing >= 0:
		return uint32(missing) * 4, LateBytes
	case alone >= 0:
		return uint32(alone) * 4, LateData
	}
	return 0, NotLate
}

// segments checks the segments after the control segment, of an opcode that moves data or does nothing. at is
// how many words have been checked.
func (w words) segments(t wqe.Transport, info *wqe.Info, need, data check, at *int, end int) {
	if info.Address && *at < end {
		switch {
		case t == wqe.TransportXRC:
			need(1, unit)
		case t == wqe.UD, t == wqe.DC:
			// The words before dqp are a queue key and a reserved word, or on DC a key of two words.
			compact := w.word(*at+2)>>31 == 0
			if t == wqe.UD {
				need(1, 2)
			} else {
				need(2, 2)
			}
			need(2, 2)
			if !compact {
				need(0, 1) // reserved
				need(7, 7)
			}
		}
	}
	if info.Raddr {
		need(3, unit) // and a reserved word
	}
	if info.Atomic() {
		w.operand(data)
	}
	for most := int(info.DataMost); most > 0 && *at < end; most-- {
		first := w.word(*at)
		if first == w.mark || first&wqe.InlineFlag == 0 {
			need(unit, unit)
			continue
		}
		n := min((int(first&wqe.InlineMask)+4+3)/4, end-*at) // with the header, which is not the mark
		data(n, (n+unit-1)/unit*unit)
	}
}

// operand checks the operands of an atomic.
func (w words) operand(data check) {
	c := wqe.Ctrl{Opcode: wqe.Opcode(w.word(0)), OpMod: uint8(w.word(0) >> 24)}
	switch {
	case c.Opcode == wqe.OpAtomicFA:
		data(2, unit) // and a value to compare with, which it does not use
	case c.Opcode == wqe.OpAtomicMaskedFA && c.OperandSize() == 4:
		data(2, unit)
	case c.Opcode == wqe.OpAtomicMaskedCS && c.OperandSize() == 8:
		data(2*unit, 2*unit)
	default:
		data(unit, unit)
	}
}
