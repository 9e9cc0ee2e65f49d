package pool

import (
	"cmp"
	"slices"
)

// A share is the memory for rings in this node's part, and the table of pairs. This node alone takes memory
// from it and gives it back, so nothing has to be agreed on with others, and no other node can take it. It
// is not safe for concurrent use.
type share struct {
	free  []extent // by position, none of them next to another
	pairs []bool   // which pairs of the table are taken
}

// An extent is some pages of a share.
type extent struct{ at, n uint32 }

func newShare(h *header) share {
	return share{free: []extent{{0, uint32(min(h.pages(), 1<<32-1))}}, pairs: make([]bool, h.pairs())}
}

// take takes n pages, the first that fit, and reports whether there were so many. At least left pages,
// perhaps not in one piece, must remain.
func (s *share) take(n, left uint64) (extent, bool) {
	if s.pages() < n+left {
		return extent{}, false
	}
	for i := range s.free {
		f := &s.free[i]
		if uint64(f.n) < n {
			continue
		}
		e := extent{f.at, uint32(n)}
		f.at, f.n = f.at+e.n, f.n-e.n
		if f.n == 0 {
			s.free = slices.Delete(s.free, i, i+1)
		}
		return e, true
	}
	return extent{}, false
}

// give gives pages back.
func (s *share) give(e extent) {
	if e.n == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(s.free, e, func(a, b extent) int { return cmp.Compare(a.at, b.at) })
	s.free = slices.Insert(s.free, i, e)
	if i+1 < len(s.free) && e.at+e.n == s.free[i+1].at {
		s.free[i].n += s.free[i+1].n
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].at+s.free[i-1].n == s.free[i].at {
		s.free[i-1].n += s.free[i].n
		s.free = slices.Delete(s.free, i, i+1)
	}
}

// pages returns how many pages are free.
func (s *share) pages() (n uint64) {
	for _, f := range s.free {
		n += uint64(f.n)
	}
	return n
}

// room returns how many rings of n pages fit.
func (s *share) room(n uint64) (rings uint64) {
	for _, f := range s.free {
		rings += uint64(f.n) / n
	}
	return rings
}

// takePair takes a pair of the table, and returns its index, -1 if all are taken.
func (s *share) takePair() int {
	i := slices.Index(s.pairs, false)
	if i >= 0 {
		s.pairs[i] = true
	}
	return i
}
