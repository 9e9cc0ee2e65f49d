package paste

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// A span is the bytes of one row of a dump.
type span struct {
	from, n int
	width   int // bytes of a group; 0: plain digits
	host    bool
	line    int
}

// A part is what was recognized in some bytes: one object.
type part struct {
	kind     Kind
	from, to int
	score    int
}

// A reading is a dump in one byte order, and the objects that it has then.
type reading struct {
	b       []byte
	parts   []part
	score   int // mean of the parts
	used    int // bytes that the parts, and blank blocks between them, take
	skipped int // blocks that are no object: never written, or not valid
	note    string
}

// preferred is how much more a reading scores in the order in which its program prints.
const preferred = 4

// mostRows is how many rows of words are at most tried in each combination of orders: the rows
// of a CQE. Each combination must be clearly better than a single order.
const (
	mostRows      = 4
	clearlyBetter = 4
)

// read finds the byte order in which a dump makes sense.
func read(b []byte, spans []span, want Kind, whole bool) reading {
	host, words := false, 0
	for _, s := range spans {
		if s.width != 1 {
			words++
		}
		host = host || s.host
	}
	as := parts(b, want, whole)
	if words == 0 {
		return as
	}
	best := as
	if host {
		best.score -= preferred
		best.note = "the words are big-endian, although this program usually prints them in host order"
	}
	try := func(note string, size func(i int, s span) int) {
		other := parts(swapped(b, spans, size), want, whole)
		if host {
			note = ""
		}
		if other.score > best.score {
			other.note = note
			best = other
		}
	}
	try("the words are in the order of a little-endian host; their bytes were reversed", byWidth)
	for _, size := range [...]int{4, 8, 2} {
		if slices.ContainsFunc(spans, func(s span) bool { return s.width == 0 }) {
			try(fmt.Sprintf("words of %d bytes are in the order of a little-endian host; their bytes were reversed", size),
				func(_ int, s span) int { return map[bool]int{true: size, false: s.width}[s.width == 0] })
		}
	}
	if len(spans) <= mostRows {
		mixed(b, spans, want, whole, &best)
	}
	return best
}

func byWidth(_ int, s span) int { return s.width }

// mixed tries all combinations of orders of rows: people join dumps of several programs.
func mixed(b []byte, spans []span, want Kind, whole bool, best *reading) {
	for set := 1; set < 1<<len(spans)-1; set++ {
		other := parts(swapped(b, spans, func(i int, s span) int {
			if set>>i&1 == 0 {
				return 1
			}
			return s.width
		}), want, whole)
		if other.score < enough || other.score <= best.score+clearlyBetter {
			continue
		}
		var list []int
		for i, s := range spans {
			if set>>i&1 != 0 && s.width > 1 {
				list = append(list, s.line)
			}
		}
		other.note = fmt.Sprintf("the rows have different byte orders: the words of lines %v are in host order", list)
		*best = other
	}
}

// swapped returns a copy of b in which the groups of each span, of the given size, are reversed.
func swapped(b []byte, spans []span, size func(i int, s span) int) []byte {
	out := bytes.Clone(b)
	for i, s := range spans {
		n := size(i, s)
		if n < 2 {
			continue
		}
		for at := s.from; at+n <= s.from+s.n; at += n {
			slices.Reverse(out[at : at+n])
		}
	}
	return out
}

// mostRecv is the longest entry of a receive queue: 32 pieces, the max_sge of the devices.
const mostRecv = 32 * wqe.DataSize

// parts recognizes the objects in bytes. want is the kind that the text before the dump
// announces, or "". whole says that nothing follows.
func parts(b []byte, want Kind, whole bool) reading {
	best := reading{b: b, used: len(b)}
	consider := func(r reading, kinds ...Kind) {
		if slices.Contains(kinds, want) && len(r.parts) > 0 {
			r.score += 50 // the text around it says so
		}
		if r.score > best.score {
			best = r
		}
	}
	if from, to, ok := cutPacket(b); ok && to > from {
		return reading{b: b, parts: []part{{Packet, from, to, 100}}, score: 100, used: len(b)}
	}
	consider(entries(b), CQE, CQE128)
	consider(requests(b, whole), Send)
	if n := scoreRecv(b); whole && n > 0 && len(b) <= mostRecv {
		consider(reading{b: b, parts: []part{{Recv, 0, len(b), n}}, score: n, used: len(b)}, Recv)
	}
	return best
}

// entries recognizes CQEs: one of 64 or 128 bytes, or the entries of a CQ.
func entries(b []byte) reading {
	r := reading{b: b}
	if len(b) == cqe.Size128 {
		second := scoreCQE(b[cqe.Size:])
		if second > 0 && (blank(b[:cqe.Size]) || scoreCQE(b[:cqe.Size]) < enough) {
			return reading{b: b, parts: []part{{CQE128, 0, len(b), second}}, score: second, used: len(b)}
		}
	}
	sum := 0
	for r.used+cqe.Size <= len(b) {
		entry := b[r.used : r.used+cqe.Size]
		n := scoreCQE(entry)
		switch {
		case n > 0:
			r.parts = append(r.parts, part{CQE, r.used, r.used + cqe.Size, n})
			sum += n
		case blank(entry) || cqe.OpOwn(entry[cqe.OffOpOwn]).Opcode() == cqe.Invalid:
			r.skipped++
		default:
			return reading{b: b}
		}
		r.used += cqe.Size
	}
	if len(r.parts) > 0 {
		r.score = sum / len(r.parts)
	}
	return r
}

// requests recognizes send WQEs, one after the other as in a send queue.
func requests(b []byte, whole bool) reading {
	r := reading{b: b}
	sum := 0
	for r.used < len(b) {
		left := b[r.used:]
		if len(left) < wqe.CtrlSize {
			break
		}
		size := int(left[7]&0x3f) * wqe.UnitSize
		if size > len(left) && !whole {
			break // the rest of the WQE is still to come
		}
		end := min((size+wqe.BlockSize-1)&^(wqe.BlockSize-1), len(left))
		n := 0
		if size > 0 && size <= len(left) {
			n = scoreSend(left[:end])
		} else {
			end = min(wqe.BlockSize, len(left))
			n = scoreSend(left)
		}
		if n > 0 {
			r.parts = append(r.parts, part{Send, r.used, r.used + end, n})
			sum += n
		} else {
			if !blank(left[:end]) && len(r.parts) == 0 {
				return reading{b: b} // a queue begins with a WQE
			}
			end = min(wqe.BlockSize, len(left))
			r.skipped++
		}
		r.used += end
	}
	if len(r.parts) > 0 {
		r.score = sum / len(r.parts)
	}
	return r
}
