//go:build linux && (amd64 || arm64)

package order

import "github.com/nicless/nicless/fault"

// may reports whether bytes of the WQE b may become visible before those of a, which is before it.
func (w *Window) may(a, b *WQE) bool {
	switch {
	case a.Alone || b.Alone || b.Strong:
		return false
	case a.Reads && b.Fenced:
		return false
	case w.kind == fault.Weak:
		return b.Relaxed
	}
	return true
}

// blocks reports whether the piece p has to be visible before the later piece q.
func (w *Window) blocks(p, q *Piece) bool {
	a, b := &w.wqes[p.WQE], &w.wqes[q.WQE]
	if p.WQE == q.WQE {
		return p.overlaps(q)
	}
	if !w.may(a, b) {
		return true
	}
	if a.Reads && !b.Reads && w.kind == fault.Weakest {
		return false // the program has left out the fence that would order them
	}
	return p.overlaps(q)
}

// A Range is bytes of one address space.
type Range struct {
	Space any // nil: memory that the device has mapped; otherwise the process that has it
	Begin uint64
	N     uint64
}

func (r Range) overlaps(s Range) bool {
	return r.Space == s.Space && (r.Begin-s.Begin < s.N || s.Begin-r.Begin < r.N)
}

// overlaps reports whether the order of p and q changes the bytes that are there at the end.
func (p *Piece) overlaps(q *Piece) bool {
	if p.Blind || q.Blind {
		return true
	}
	return p.To.overlaps(q.To) || p.To.overlaps(q.From) || p.From.overlaps(q.To)
}
