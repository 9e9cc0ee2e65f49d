//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"

	"golang.org/x/sys/unix"
)

// An area is a piece of the program's memory in which the device works: a ring, a doorbell
// record, a memory region.
type area struct {
	name    string
	addr, n uint64
	align   uint64 // addr must be a multiple of align
}

// isRemap reports whether a need or result is of the remapping of pages.
func isRemap(kind uint16) bool { return kind == needRemap || kind == needMove }

// areas returns the extent that contains each area of a list. The extents are held for the
// caller and are regions of the device. If an area is not in shared memory yet, areas asks
// the shim to remap the area's pages and returns errAgain; the shim then makes the same call
// again.
func (c *call) areas(list ...area) (held []*extent, err error) {
	defer func() {
		if err != nil {
			c.x.putBack(held)
			held = nil
		}
	}()
	for _, a := range list {
		if a.n == 0 || a.n > maxExtent || a.addr+a.n < a.addr {
			return held, refuse(eINVAL, "%s: %d bytes at %#x; 1 to %d are possible", a.name, a.n, a.addr, uint64(maxExtent))
		}
		if a.addr%a.align != 0 {
			return held, refuse(eINVAL, "%s: at %#x; a multiple of %d is needed", a.name, a.addr, a.align)
		}
		if err := c.takeResults(a); err != nil {
			return held, err
		}
		e, err := c.p.memory.find(a.addr, a.n)
		if err != nil {
			return held, refuse(eFAULT, "%s: %v", a.name, err)
		}
		if e == nil {
			if err := c.want(a, needRemap); err != nil {
				return held, err
			}
			continue
		}
		if err := c.x.hold(e, a.addr, a.n); err != nil {
			return held, err
		}
		held = append(held, e)
	}
	if len(c.needs) > 0 { // including needs that were added before this function
		return held, errAgain
	}
	return held, nil
}

// pages returns the whole pages that contain an area.
func (a *area) pages() (lo, size uint64) {
	lo = a.addr &^ (pageSize - 1)
	return lo, (a.addr + a.n - lo + pageSize - 1) &^ (pageSize - 1)
}

// want asks the shim to remap the pages of an area into shared memory. kind is needRemap, or
// needMove if the pages may stay where they are.
func (c *call) want(a area, kind uint16) error {
	lo, size := a.pages()
	if c.p.memory.maps != nil && kind == needRemap {
		whole, n, err := c.p.memory.maps.wholePages(lo, size)
		switch {
		case err != nil:
			return refuse(eFAULT, "%s: %v", a.name, err)
		case n != size && c.p.memory.copiesFrom(whole, n):
			return refuse(eFAULT, "%s: it is in a huge page of which a part is registered memory already, so that the page cannot be moved", a.name)
		}
		lo, size = whole, n
	}
	for i, n := range c.needs {
		if !isRemap(n.kind) || lo >= n.addr+n.length || n.addr >= lo+size {
			continue
		}
		if lo >= n.addr && lo+size <= n.addr+n.length {
			return nil
		}
		// Two areas share a page, such as a ring and the doorbell record right behind it.
		// Both become one extent.
		end := max(lo+size, n.addr+n.length)
		lo = min(lo, n.addr)
		c.unwant(i)
		return c.want(area{name: a.name, addr: lo, n: end - lo, align: 1}, kind)
	}
	if e := c.p.memory.taken(lo, size); e != nil {
		return refuse(eINVAL, "%s: %d bytes at %#x lie partly in memory at %#x that is in use", a.name, a.n, a.addr, e.addr)
	}
	if c.p.memory.maps != nil {
		movable := func(v vma) error { return remappable(v, kind) }
		if err := c.p.memory.maps.over(lo, size, movable); err != nil {
			return refuse(eFAULT, "%s: %v", a.name, err)
		}
	}
	for _, r := range c.results {
		if isRemap(r.kind) && r.addr == lo {
			return refuse(eFAULT, "%s: page %#x was remapped, and is not there", a.name, lo)
		}
	}
	e, err := c.p.memory.make(movedName, lo, size)
	if err != nil {
		return err
	}
	if old := c.p.pending[lo]; old != nil { // an earlier call asked for it, and no result came
		c.p.memory.discard(old)
	}
	c.p.pending[lo] = e
	c.needs = append(c.needs, wireNeed{kind: kind, addr: lo, length: size})
	c.lent = append(c.lent, e.mem.File())
	return nil
}

// unwant withdraws one of the needs.
func (c *call) unwant(i int) {
	file := 0 // each need to remap has one file, in the same order
	for _, n := range c.needs[:i] {
		if isRemap(n.kind) {
			file++
		}
	}
	addr := c.needs[i].addr
	c.needs, c.lent = slices.Delete(c.needs, i, i+1), slices.Delete(c.lent, file, file+1)
	c.p.memory.discard(c.p.pending[addr])
	delete(c.p.pending, addr)
}

// takeResults handles the shim's results for the pages of an area: it adds the extents that the
// process has mapped now, and returns an error if a page could not be remapped.
func (c *call) takeResults(a area) error {
	lo, size := a.pages()
	for _, r := range c.results {
		e := c.p.pending[r.addr]
		if !isRemap(r.kind) || e == nil || !e.overlaps(lo, size) {
			continue
		}
		delete(c.p.pending, r.addr)
		if r.errno != 0 {
			c.p.memory.discard(e)
			return refuse(eFAULT, "%s: the pages at %#x could not be put into shared memory: %s", a.name, r.addr, whyNotMoved(unix.Errno(r.errno)))
		}
		e.heap = r.attr == inHeap
		if err := c.p.memory.add(e); err != nil {
			c.p.memory.discard(e)
			return err
		}
	}
	return nil
}

// hold makes an extent, which the caller holds, a region of this context, in which the engine
// finds the n bytes at addr. On failure it puts the extent back.
func (x *uctx) hold(e *extent, addr, n uint64) error {
	r := x.regions[e]
	err := x.hidden(e, r, addr, n)
	if err == nil && r == nil {
		r = &region{added: x.added}
		x.added++
		r.id, err = x.addRegion(e)
	}
	if err != nil {
		e.m.putBack(e)
		return err
	}
	x.regions[e] = r
	r.users++
	return nil
}

// hidden returns an error if the engine would find other memory at an address of an extent. Of
// regions that overlap it takes the newest one. r is the region of the extent, nil if it has none
// yet. Two processes that share a context can have different memory at one address.
func (x *uctx) hidden(e *extent, r *region, addr, n uint64) error {
	for o, other := range x.regions {
		switch {
		case o.m != e.m && o.overlaps(e.addr, e.size):
			return refuse(eINVAL, "memory at %#x: another process has registered other memory there in this context", addr)
		case r != nil && other.added > r.added && o.holds(addr, n):
			return refuse(eINVAL, "memory at %#x: the program has registered other memory there, and not deregistered it", addr)
		}
	}
	return nil
}

// release lets go of the extents that a destroyed object held.
func (x *uctx) release(held []*extent) {
	for _, e := range held {
		if x.unhold(e) {
			e.m.letGo(e)
		}
	}
}

// putBack lets go of extents that were held for an object that could not be made after all.
func (x *uctx) putBack(held []*extent) {
	for _, e := range held {
		if x.unhold(e) {
			e.m.putBack(e)
		}
	}
}

// unhold ends one use of an extent's region, and drops the region after the last use. It
// reports whether the memory may be freed. Memory that the device still uses stays until
// the context ends.
func (x *uctx) unhold(e *extent) bool {
	r := x.regions[e]
	if r.users == 1 {
		if !x.dropRegion(r.id) {
			return false
		}
		delete(x.regions, e)
	}
	r.users--
	return true
}

// A region is the engine's region for an extent, in one context.
type region struct {
	id    uint32
	added uint64 // grows with each region of the context
	users int
}
