package pool

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A share is the memory for rings in this node's part, and the table of pairs. This node alone takes memory
// from it and gives it back, so nothing has to be agreed on with others, and no other node can take it. It
// is not safe for concurrent use.
type share struct {
	free  []extent // by position, none of them next to another
	pairs []bool   // which pairs of the table are taken

	// lost has the pages whose memory is not there (lost.go): true if they are not in free, and in no ring.
	lost    map[uint32]bool
	returns time.Duration // when they are looked at next
}

// An extent is some pages of a share.
type extent struct{ at, n uint32 }

func newShare(h *header) share {
	return share{
		free:  []extent{{0, uint32(min(h.pages(), 1<<32-1))}},
		pairs: make([]bool, h.pairs()), lost: make(map[uint32]bool),
	}
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

// give gives pages back, but for those that are lost.
func (s *share) give(e extent) {
	from, end := e.at, e.at+e.n
	if len(s.lost) > 0 {
		for page := from; page < end; page++ {
			if _, lost := s.lost[page]; lost {
				s.insert(extent{from, page - from})
				s.lost[page], from = true, page+1
			}
		}
	}
	s.insert(extent{from, end - from})
}

// setAside notes that a page is lost.
func (s *share) setAside(page uint32) {
	s.lost[page] = s.lost[page] || len(s.cut(extent{page, 1})) > 0
}

// takeBack notes that a page is there again.
func (s *share) takeBack(page uint32) {
	out := s.lost[page]
	delete(s.lost, page)
	if out {
		s.insert(extent{page, 1})
	}
}

// insert makes pages free.
func (s *share) insert(e extent) {
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

// aside says how many pages are set aside; "" for none.
func (s *share) aside() string {
	if len(s.lost) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d pages of it are set aside, because their memory is lost", len(s.lost))
}
