package machine

import "github.com/nicless/nicless/accel/ptx/internal/code"

// firstAddress is the least address at which memory can be.
const firstAddress = 1 << 16

// numSeen is how many extents a warp remembers: a post is to a ring, a record, a register and a CQ.
const numSeen = 8

// seenAt returns which of the extents that are remembered may have an address.
func seenAt(address uint64) uint64 { return address >> 16 % numSeen }

// reach returns the address of an access of a lane: one of the process, whose bytes may be reached.
func (w *warp) reach(i *code.Inst, l int, address uint64, a *code.Access) uint64 {
	n := uint64(a.Bytes())
	address += uint64(i.Imm)
	if address&(n-1) != 0 {
		w.misaligned(l, address, n)
	}
	if a.Space == code.Shared {
		return w.inShared(l, address, n)
	}
	if !w.seen[seenAt(address)].has(address, n) {
		w.look(l, a.Space, address, n)
	}
	return address
}

// inShared returns the address of n bytes of the block's shared memory. Of an offset in it 32 bits count.
func (w *warp) inShared(l int, offset, n uint64) uint64 {
	offset = uint64(uint32(offset))
	if n > w.block.sharedBytes || offset > w.block.sharedBytes-n {
		w.fault(l, code.Shared, offset, n)
	}
	return w.block.shared + offset
}

// span returns the address of n bytes that a lane reaches in a space; n may be 0.
func (w *warp) span(l int, address, n uint64, s code.Space) uint64 {
	if s == code.Shared {
		return w.inShared(l, address, n)
	}
	if !w.seen[seenAt(address)].has(address, max(n, 1)) {
		w.look(l, s, address, max(n, 1))
	}
	return address
}

// look finds the memory of an access, which is the grid's own or of its space, and remembers it: the next
// access is often to the same.
func (w *warp) look(l int, s code.Space, address, n uint64) {
	b := w.block
	g := b.grid
	for _, own := range [...]extent{
		{b.shared, b.sharedBytes},
		{w.laneMemory(l), g.frameBytes},
		{g.params, g.paramBytes},
		g.workspaceExtent(),
	} {
		if own.has(address, n) {
			return // not remembered: a lane's memory is not the next lane's
		}
	}
	e := g.launch.Space.find(address)
	if !e.has(address, n) {
		w.fault(l, s, address, n)
	}
	w.seen[seenAt(address)] = e
}
