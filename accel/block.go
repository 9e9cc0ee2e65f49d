package accel

import (
	"fmt"
	"math/bits"
)

// A block is a set of lanes that one processor executes one after another. Only one
// goroutine at a time uses a block.
type block struct {
	grid  *grid
	index int
	lanes []*lane
	warps []warp
	live  int // lanes that have not ended

	arrived int    // lanes that wait at Sync
	round   uint64 // number of Syncs at which all lanes have arrived
}

// A warp is up to 32 lanes of a block. They have warp operations, in which all of them
// take part.
type warp struct {
	live  uint32 // lanes that have not ended, by bit
	round uint64 // number of warp operations that are complete
	votes [2]ballot
	puts  batches
}

// A ballot contains the values that the lanes of a warp contribute to one warp operation. A
// warp has two ballots and uses them alternately, because a lane can be one operation ahead
// of the slowest lane.
type ballot struct {
	mask uint32 // lanes that have contributed, by bit
	v    [WarpSize]uint64
}

// begin starts the next block of g and gives it lanes.
func (p *processor) begin(g *grid) *block {
	b := &block{
		grid: g, index: g.next(), live: g.threads,
		lanes: make([]*lane, g.threads), warps: make([]warp, (g.threads+WarpSize-1)/WarpSize),
	}
	for i := range b.warps {
		b.warps[i].live = 1<<min(WarpSize, g.threads-i*WarpSize) - 1
	}
	for i := range b.lanes {
		if n := len(p.lanes); n > 0 {
			b.lanes[i], p.lanes = p.lanes[n-1], p.lanes[:n-1]
		} else {
			b.lanes[i] = newLane(p)
		}
		b.lanes[i].begin(b, i)
	}
	return b
}

// run makes one pass over the lanes. It resumes each lane that need not wait, and reports
// whether there was such a lane.
func (b *block) run() (moved bool) {
	failed := b.grid.failed.Load()
	for _, l := range b.lanes {
		if l.wait == ended || !failed && !l.ready() {
			continue
		}
		moved = true
		l.proc.now = l
		l.resume()
	}
	return moved
}

// stuck reports whether all lanes wait for each other.
func (b *block) stuck() bool {
	for _, l := range b.lanes {
		if l.wait != ended && l.wait != forSync && l.wait != forWarp && l.wait != forBatch {
			return false
		}
	}
	return b.live > 0
}

// deadlock returns an error that says how many lanes wait at which operation.
func (b *block) deadlock() error {
	var at [numWaits]int
	first := 0
	for i, l := range b.lanes {
		at[l.wait]++
		if l.wait != ended && b.lanes[first].wait == ended {
			first = i
		}
	}
	return &KernelError{Block: b.index, Thread: first, Cause: fmt.Errorf(
		"the block is deadlocked: %d lanes are at Sync, %d at an operation of their warp, %d have ended", at[forSync], at[forWarp]+at[forBatch], at[ended])}
}

// sync counts a lane at Sync and reports whether it is the last.
func (b *block) sync() bool {
	b.arrived++
	return b.finishSync()
}

// finishSync ends a Sync at which all lanes have arrived, and reports whether there was one.
func (b *block) finishSync() bool {
	if b.arrived == 0 || b.arrived < b.live {
		return false
	}
	b.arrived = 0
	b.round++
	return true
}

// leave removes a lane that has ended, so that the other lanes no longer wait for it.
func (b *block) leave(l *lane) {
	b.live--
	b.finishSync()
	w := l.warp()
	w.live &^= 1 << l.t.Lane()
	w.finishVote()
}

// vote contributes v, the value of a lane, to the next warp operation. It reports whether
// the operation is complete now.
func (w *warp) vote(lane int, v uint64) bool {
	n := &w.votes[w.round&1]
	n.mask |= 1 << lane
	n.v[lane] = v
	return w.finishVote()
}

// finishVote ends the warp operation to which all lanes have contributed, and reports whether
// there was one.
func (w *warp) finishVote() bool {
	n := &w.votes[w.round&1]
	if n.mask == 0 || w.live&^n.mask != 0 {
		return false
	}
	w.round++
	// The next ballot: every lane has read its old values, because every lane has voted since.
	w.votes[w.round&1].mask = 0
	return true
}

// elected returns the number of the lowest lane that takes part.
func (n *ballot) elected() int { return bits.TrailingZeros32(n.mask) }
