package accel

import (
	"fmt"
	"math/bits"
)

// A block is a set of lanes that one processor executes in turn. No two goroutines use it
// at once.
type block struct {
	grid  *grid
	index int
	lanes []*lane
	warps []warp
	live  int // lanes that have not ended

	arrived int    // lanes at Sync
	round   uint64 // Syncs that all have left
}

// A warp is up to 32 lanes of a block that have operations in common.
type warp struct {
	live  uint32 // lanes that have not ended, by bit
	round uint64 // operations in common that are complete
	votes [2]ballot
	puts  batches
}

// A ballot holds the values that the lanes of a warp bring to an operation in common. A
// lane can be one operation ahead of the slowest, so there are two, used in turn.
type ballot struct {
	mask uint32 // lanes that have come, by bit
	v    [WarpSize]uint64
}

// begin starts the next block of g, with lanes.
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

// run resumes each lane that does not have to wait, once, and reports whether there was
// one.
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
		if at[l.wait]++; l.wait != ended && b.lanes[first].wait == ended {
			first = i
		}
	}
	return &KernelError{Block: b.index, Thread: first, Cause: fmt.Errorf(
		"the block is deadlocked: %d lanes are at Sync, %d at an operation of their warp, %d have ended", at[forSync], at[forWarp]+at[forBatch], at[ended])}
}

// sync counts a lane at Sync and reports whether it is the last.
func (b *block) sync() bool {
	b.arrived++
	return b.synced()
}

func (b *block) synced() bool {
	if b.arrived == 0 || b.arrived < b.live {
		return false
	}
	b.arrived = 0
	b.round++
	return true
}

// leave counts a lane that has ended. Other lanes do not wait for it any more.
func (b *block) leave(l *lane) {
	b.live--
	b.synced()
	w := l.warp()
	w.live &^= 1 << l.t.Lane()
	w.voted()
}

// vote brings v to the next operation of the warp and reports whether that is
// complete now.
func (w *warp) vote(lane int, v uint64) bool {
	n := &w.votes[w.round&1]
	n.mask |= 1 << lane
	n.v[lane] = v
	return w.voted()
}

func (w *warp) voted() bool {
	n := &w.votes[w.round&1]
	if n.mask == 0 || w.live&^n.mask != 0 {
		return false
	}
	w.round++
	w.votes[w.round&1].mask = 0 // all lanes have read it, for all have come here since
	return true
}

// elected returns the lowest lane that takes part.
func (n *ballot) elected() int { return bits.TrailingZeros32(n.mask) }
