//go:build linux && (amd64 || arm64)

package order

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/nicless/nicless/fault"
)

const (
	// MostWQEs is how many WQEs a window has. Programs that signal each 16th WQE are common, and what a
	// completion orders need not be in one window.
	MostWQEs = 16

	// Pieces is how many pieces a message is cut into, at most: a page of 4 KiB into its cache lines. A
	// longer message has longer pieces, because a piece more shows nothing new and costs time.
	Pieces = 64

	// mostLong is how many windows of a device have several WQEs at once. One holds up to 200 KiB that nobody
	// pays for: 16 jobs and 383 pieces. So all hold 50 MiB at most, less than packets that wait may (see
	// transport/held.go). Another window has one WQE, whose job and pieces take 20 KiB until it ends.
	mostLong = 256

	// CacheLine is the least size of a piece. Devices write whole cache lines.
	CacheLine = 64

	// mostPieces is how many pieces a window has when no other WQE is added.
	mostPieces = 4 * Pieces

	// pauses is how often the device pauses in a message, on average: where it pauses, others see
	// the state in between.
	pauses = 3

	// longPauses says that one pause in so many is long.
	longPauses = 16

	// tries is how many pieces are drawn, before the first one that may come next is taken.
	tries = 8
)

// A WQE is what its order depends on.
type WQE struct {
	Index   uint16
	Opcode  uint8
	Reads   bool // its bytes come to the requester
	Alone   bool // nothing passes it, and it passes nothing
	Fenced  bool // it waits for earlier READs
	Strong  bool // it waits for all earlier WQEs
	Relaxed bool // all of its bytes are written under keys with relaxed ordering

	left     int  // pieces that are not visible yet
	first    Pass // the first time that bytes have passed others of the same message
	passed   bool // first is valid
	reported bool // of its own bytes
	across   bool // of bytes of other WQEs
	from     int  // its first piece
}

// A Piece is bytes of a WQE that become visible at once.
type Piece struct {
	WQE      int
	Begin, N uint64 // bytes of the message
	To, From Range
	Blind    bool // it is not known where its bytes are: no piece behind or before it passes it
	done     bool
}

// A Pass is a piece that became visible before another one, which is before it.
type Pass struct{ Piece, Before Piece }

// A Window is WQEs that are being executed. The zero Window has none.
type Window struct {
	kind   fault.Order
	random rand.PCG
	wqes   []WQE
	pieces []Piece
	head   int // WQEs that have ended
	now    int // the piece that is being moved, if moving
	Moved  uint64
	moving bool
	room   *Room // if the window may have several WQEs
}

// A Room counts the windows of a device that have several WQEs: 256 at most. Any thread may use it.
type Room struct{ taken atomic.Int32 }

// Taken returns how many there are.
func (r *Room) Taken() int { return int(r.taken.Load()) }

// Begin begins to draw from a seed. It is called once.
func (w *Window) Begin(kind fault.Order, seed uint64) {
	w.kind = kind
	w.random.Seed(seed, 0)
}

// Clear forgets all WQEs. It keeps no memory, because a queue that is idle pays for none.
func (w *Window) Clear() {
	w.wqes, w.pieces, w.head, w.moving, w.Moved = nil, nil, 0, false, 0
	if w.room != nil {
		w.room.taken.Add(-1)
		w.room = nil
	}
}

// Active reports whether WQEs are on the way.
func (w *Window) Active() bool { return w.head < len(w.wqes) }

// Joins reports whether there is room for another WQE, whose bytes may pass some that are on the way. If so,
// the window has several WQEs until Clear, and r counts it.
func (w *Window) Joins(b *WQE, r *Room) bool {
	if len(w.wqes) == MostWQEs || len(w.pieces) >= mostPieces ||
		!slices.ContainsFunc(w.wqes, func(a WQE) bool { return w.may(&a, b) }) {
		return false
	}
	if w.room == nil {
		if r.taken.Add(1) > mostLong {
			r.taken.Add(-1)
			return false
		}
		w.room = r
	}
	return true
}

// Add adds a WQE and its pieces, of which there is at least one.
func (w *Window) Add(b WQE, pieces []Piece) {
	b.left, b.from = len(pieces), len(w.pieces)
	w.pieces = slices.Grow(w.pieces, len(pieces))
	for _, p := range pieces {
		p.WQE = len(w.wqes)
		w.pieces = append(w.pieces, p)
	}
	w.wqes = append(w.wqes, b)
}

// Next returns the piece that becomes visible next, and the place of its WQE among those that have not ended.
// It is the same piece until Done.
func (w *Window) Next() (p *Piece, place int) {
	if !w.moving {
		w.now, w.moving, w.Moved = w.draw(), true, 0
	}
	p = &w.pieces[w.now]
	return p, p.WQE - w.head
}

func (w *Window) draw() int {
	open := 0
	for i := range w.pieces {
		if !w.pieces[i].done {
			open++
		}
	}
	for range tries {
		if i := w.open(w.below(open)); w.blocker(i) < 0 {
			return i
		}
	}
	i := w.open(w.below(open))
	for b := w.blocker(i); b >= 0; b = w.blocker(i) {
		i = b
	}
	return i
}

// below returns a number from 0 to n-1. The bias for so small numbers is less than 1 in 2^50.
func (w *Window) below(n int) int { return int(w.random.Uint64() % uint64(n)) }

// open returns the index of the n-th piece that is not visible yet.
func (w *Window) open(n int) int {
	for i := range w.pieces {
		if !w.pieces[i].done {
			if n == 0 {
				return i
			}
			n--
		}
	}
	panic("order: no piece left")
}

// blocker returns the index of a piece that has to be visible before the piece i, or -1.
func (w *Window) blocker(i int) int {
	for b := range i {
		if !w.pieces[b].done && w.blocks(&w.pieces[b], &w.pieces[i]) {
			return b
		}
	}
	return -1
}

// Done notes that the piece that Next has returned is visible. Passes are what is worth a report: at most one
// of bytes of the same message, and one of bytes of an earlier WQE, for each WQE.
func (w *Window) Done() (passes []Pass) {
	p := &w.pieces[w.now]
	b := &w.wqes[p.WQE]
	p.done, w.moving, w.Moved = true, false, 0
	b.left--
	within, across := w.before(p)
	if within != nil && !b.passed {
		b.first, b.passed = Pass{*p, *within}, true
	}
	// A program that polls memory polls the end of a message, so an early end is the better report.
	isEnd := w.now+1 == len(w.pieces) || w.pieces[w.now+1].WQE != p.WQE
	if within != nil && isEnd && !b.reported {
		b.reported = true
		passes = append(passes, Pass{*p, *within})
	}
	if b.left == 0 && b.passed && !b.reported {
		b.reported = true
		passes = append(passes, b.first)
	}
	if across != nil && !b.across {
		b.across = true
		passes = append(passes, Pass{*p, *across})
	}
	return passes
}

// before returns the first piece of the same message that is before p and not visible, and one of the last
// earlier WQE that has one.
func (w *Window) before(p *Piece) (within, across *Piece) {
	for i := range w.now {
		o := &w.pieces[i]
		switch {
		case o.done:
		case o.WQE != p.WQE:
			if across == nil || across.WQE != o.WQE {
				across = o
			}
		case within == nil:
			within = o
		}
	}
	return within, across
}

// WQE returns the WQE of a piece.
func (w *Window) WQE(p *Piece) *WQE { return &w.wqes[p.WQE] }

// Ends reports whether all bytes of the first WQE that has not ended are visible, and notes its end.
func (w *Window) Ends() bool {
	if !w.Active() || w.wqes[w.head].left > 0 {
		return false
	}
	w.head++
	return true
}

// Pauses draws whether the device pauses now, and whether for long.
func (w *Window) Pauses() (now, long bool) {
	left := 0
	for i := range w.wqes[w.head:] {
		left += w.wqes[w.head+i].left
	}
	now = left > 0 && w.below(len(w.pieces)) < pauses*len(w.wqes)
	return now, now && w.below(longPauses) == 0
}

// Cut takes out the WQEs from a place among those that have not ended on.
func (w *Window) Cut(place int) {
	if at := w.head + place; at < len(w.wqes) {
		w.pieces = w.pieces[:w.wqes[at].from]
		w.wqes = w.wqes[:at]
		w.moving = w.moving && w.now < len(w.pieces)
	}
}

// First reports whether the piece that is being moved is of the first WQE that has not ended, or none is.
func (w *Window) First() bool { return !w.moving || w.pieces[w.now].WQE == w.head }
