package machine

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/order"
)

// A warp is up to 32 lanes of a block. Each lane makes progress by itself: it has its own place in the
// code. Lanes that are at the same place are executed together, as a party.
type warp struct {
	block *block
	prog  *Program
	index int // in the block
	regs  []vector
	preds []uint32 // a bit for each lane
	live  uint32   // lanes that have not ended
	held  uint32   // of these, the lanes that wait at a rendezvous or a barrier
	pc    [Lanes]int32
	frame [Lanes]int32 // index in frames
	// frames are the calls that are under way; the first is the kernel.
	frames  []frame
	party   party
	turn    int // the lane that leads the next party
	arrived [Lanes]arrival
	debt    int                  // instructions that the last one counts as, besides itself
	polled  bool                 // it has loaded something in this turn that others may have to store first
	acted   bool                 // it has stored something in this turn, or ended lanes
	asleep  uint32               // of the live lanes, those that nanosleep
	wake    [Lanes]time.Duration // when they go on, as since returns it
	seen    [numSeen]extent      // memory that lanes have reached in this turn
	fenced  atomic.Uint32
	lanes   []*order.Lane // nil: everybody sees stores at once
	pause   int           // turns that it lets pass, if it has such lanes
}

// awaken lets lanes go on that have slept long enough.
func (w *warp) awaken() {
	now := time.Since(begun)
	for m := w.asleep; m != 0; m &= m - 1 {
		if l := bits.TrailingZeros32(m); w.wake[l] <= now {
			w.asleep &^= 1 << l
		}
	}
}

// A frame is a call that is under way in some lanes.
type frame struct {
	fn     *function
	base   int32 // of its slots
	pbase  int32 // of its predicates
	memory int64 // of its bytes
	caller int32 // the frame of the caller
	back   int32 // the call
	depth  int32
	lanes  int // that are in it
}

// A party is lanes that are executed together.
type party struct {
	mask  uint32
	pc    int32
	frame int32
	join  int32 // at this place, others of the same frame wait to be joined
}

// An arrival is what a lane has brought to a rendezvous.
type arrival struct {
	inst    *code.Inst
	mask    uint32
	a, b, c uint64
	q       bool
	barrier int // of the block, or -1
	frame   int32
}

// choose makes a party of the lanes that lead can be executed with, and reports whether there are any. As a
// rule, the lanes that are behind go first, so that lanes come together again; but each lane's turn comes.
func (w *warp) choose(fair bool) bool {
	ready := w.live &^ (w.held | w.asleep)
	if ready == 0 {
		return false
	}
	lead := bits.TrailingZeros32(ready)
	if fair {
		lead = bits.TrailingZeros32(bits.RotateLeft32(ready, -w.turn)) + w.turn
		lead &= Lanes - 1
		w.turn = lead + 1
	} else {
		for m := ready & (ready - 1); m != 0; m &= m - 1 {
			if l := bits.TrailingZeros32(m); w.behind(l, lead) {
				lead = l
			}
		}
	}
	p := party{pc: w.pc[lead], frame: w.frame[lead], join: math.MaxInt32}
	for m := ready; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		switch {
		case w.frame[l] != p.frame:
		case w.pc[l] == p.pc:
			p.mask |= 1 << l
		case w.pc[l] > p.pc:
			p.join = min(p.join, w.pc[l])
		}
	}
	w.party = p
	return true
}

// behind reports whether lane a is deeper in calls than lane b, or as deep, and before it.
func (w *warp) behind(a, b int) bool {
	da, db := w.frames[w.frame[a]].depth, w.frames[w.frame[b]].depth
	if da != db {
		return da > db
	}
	return w.pc[a] < w.pc[b]
}

// leave stores where the lanes of the party are.
func (w *warp) leave() {
	for m := w.party.mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		w.pc[l], w.frame[l] = w.party.pc, w.party.frame
	}
}

// split lets some lanes of the party go on elsewhere.
func (w *warp) split(lanes uint32, pc int32) {
	for m := lanes; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		w.pc[l], w.frame[l] = pc, w.party.frame
	}
	w.party.mask &^= lanes
}

// lanesOf returns the numbers of lanes.
func lanesOf(mask uint32) (all []int) {
	for m := mask; m != 0; m &= m - 1 {
		all = append(all, bits.TrailingZeros32(m))
	}
	return all
}
