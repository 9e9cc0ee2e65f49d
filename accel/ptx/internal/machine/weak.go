package machine

import (
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/order"
)

// processMemory is the memory of the process, for package order, which alone decides what is late: the
// processor adds nothing.
type processMemory struct{}

func (processMemory) Load(address uint64, size int) uint64     { return loadAcquire(address, size) }
func (processMemory) Store(address uint64, size int, v uint64) { storeRelease(address, size, v) }

// NewOrder returns a memory whose stores are seen late, in an order that a seed decides.
func NewOrder(seed uint64) *order.Memory { return order.New(processMemory{}, seed) }

// scopeOf returns the scope of an access.
func scopeOf(a *code.Access) order.Scope {
	switch {
	case a.Order == code.Weak:
		return order.Weak
	case a.Scope == code.Block:
		return order.Block
	case a.Scope == code.System:
		return order.System
	}
	return order.GPU
}

// acquires reports whether nothing that comes after an access is done before it.
func acquires(o code.Order) bool { return o >= code.Acquire && o != code.Release }

// releases reports whether everything that comes before an access is done before it.
func releases(o code.Order) bool { return o >= code.Release }

// late returns the lane if others may see its stores to an address late. Its own memory is seen by nobody
// else.
func (w *warp) late(l int, address uint64) *order.Lane {
	if w.lanes == nil || address-w.laneMemory(l) < w.block.grid.frameBytes {
		return nil
	}
	return w.lanes[l]
}

// fence orders accesses of lanes.
func (w *warp) fence(a *code.Access, mask uint32) {
	if a.Order == code.Weak {
		return
	}
	w.fenced.Add(0)
	w.preempt(a)
	w.drain(scopeOf(a), a.Order == code.Sequential, mask)
}

// drain lets those of a scope see what lanes have stored.
func (w *warp) drain(s order.Scope, sequential bool, mask uint32) {
	if w.lanes == nil {
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		w.lanes[bits.TrailingZeros32(m)].Fence(s, sequential)
	}
}

// refresh lets lanes that leave a barrier see what others have seen before it.
func (w *warp) refresh(mask uint32) {
	if w.lanes == nil {
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		w.lanes[bits.TrailingZeros32(m)].Refresh()
	}
}

// preempt ends the turn of the warp after an access, if chance has it, and lets others do much before the
// next.
func (w *warp) preempt(a *code.Access) {
	if w.lanes == nil || a.Order == code.Weak {
		return
	}
	if n := w.block.grid.launch.Order.Preempt(a.Order == code.Release); n > 0 {
		w.debt, w.pause = quantum, max(w.pause, n-1)
	}
}
