package accel

import (
	"math/bits"

	"github.com/nicless/nicless/hostpath"
)

// A Thread is the argument of a kernel. It has the place of its lane in the grid, and has
// the operations of a lane. Only that lane may use it.
//
// Methods that wait let other lanes run meanwhile: Sync, warp operations, Quiet, WaitUntil,
// and requests to a queue that is full.
type Thread struct {
	lane  *lane
	block *block
	index int
	fence hostpath.Flags // hostpath.Fence after a call of Fence, for the next request; otherwise 0
	puts  uint64         // number of PutWarps of this lane so far
}

// Index returns the number of the lane within its block (threadIdx.x).
func (t *Thread) Index() int { return t.index }

// Block returns the number of the block (blockIdx.x).
func (t *Thread) Block() int { return t.block.index }

// Threads returns how many lanes a block has (blockDim.x).
func (t *Thread) Threads() int { return t.block.grid.threads }

// Blocks returns how many blocks the grid has (gridDim.x).
func (t *Thread) Blocks() int { return t.block.grid.blocks }

// Global returns the number of the lane within the grid.
func (t *Thread) Global() int { return t.block.index*t.block.grid.threads + t.index }

// Warp returns the number of the warp within its block.
func (t *Thread) Warp() int { return t.index / WarpSize }

// Lane returns the number of the lane within its warp, 0 to 31.
func (t *Thread) Lane() int { return t.index % WarpSize }

// Sync waits until all lanes of the block that have not ended have called Sync
// (__syncthreads).
func (t *Thread) Sync() {
	t.drainPuts()
	round := t.block.round
	if !t.block.sync() {
		t.lane.round = round
		t.lane.pause(forSync)
	}
}

// together executes a warp operation: it waits until all lanes of the warp that have not
// ended have contributed their values.
func (t *Thread) together(v uint64) *ballot {
	t.drainPuts()
	w := t.lane.warp()
	round := w.round
	if !w.vote(t.Lane(), v) {
		t.lane.round = round
		t.lane.pause(forWarp)
	}
	return &w.votes[round&1]
}

// SyncWarp waits until all lanes of the warp have called SyncWarp (__syncwarp). Lanes that
// have ended take no part in SyncWarp and the other warp operations.
func (t *Thread) SyncWarp() { t.together(0) }

// Ballot returns a mask of the lanes of the warp whose p is true, one bit for each lane
// (__ballot_sync).
func (t *Thread) Ballot(p bool) uint32 {
	v := uint64(0)
	if p {
		v = 1
	}
	n, votes := t.together(v), uint32(0)
	for m := n.mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		votes |= uint32(n.v[i]) << i
	}
	return votes
}

// Shuffle returns the v of the lane whose number is the argument from, 0 to 31 (__shfl_sync).
// If that lane takes no part, Shuffle returns the caller's own v.
func (t *Thread) Shuffle(v uint64, from int) uint64 {
	n := t.together(v)
	from &= WarpSize - 1
	if n.mask>>from&1 != 0 {
		return n.v[from]
	}
	return v
}

// ShuffleXor returns the v of the lane whose number differs from the caller's in exactly the
// bits that are set in mask (__shfl_xor_sync). If that lane takes no part, ShuffleXor returns
// the caller's own v.
func (t *Thread) ShuffleXor(v uint64, mask int) uint64 { return t.Shuffle(v, t.Lane()^mask) }

// Elect returns true in only one lane of the warp, the lowest (elect.sync).
func (t *Thread) Elect() bool { return t.together(0).elected() == t.Lane() }
