//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"

	"golang.org/x/sys/unix"
)

// The program's memory in which the device works has to be in extents: memory that the engine shares. This
// file finds the extents of a call's areas, holds them, and makes them regions of the engine. If an area
// is in no extent, the call asks the shim to remap the area's pages.

// An area is a piece of the program's memory in which the device works: a ring, a doorbell
// record, a memory region.
type area struct {
	name    string
	addr, n uint64
	align   uint64 // addr must be a multiple of align
}

// isRemap reports whether a need or a result of this kind is about the remapping of pages.
func isRemap(kind uint16) bool { return kind == needRemap || kind == needTryRemap }

// holdAreas returns the extent that contains each area of a list. The extents are held for the
// caller and are regions of the device. If an area is not in shared memory yet, holdAreas asks
// the shim to remap the area's pages and returns errAgain; the shim then makes the same call
// again.
func (c *call) holdAreas(list ...area) (held []*extent, err error) {
	defer func() {
		if err != nil {
			c.x.undoHolds(held)
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
		lo, size := a.pages()
		switch {
		case e != nil:
			err = c.x.addUse(e, a.addr, a.n)
			if err == nil {
				c.x.keepRegion(e)
			}
		case c.p.memory.taken(lo, size) != nil:
			e, err = c.holdParts(a)
		default:
			err = c.requestRemap(a, needRemap)
		}
		if err != nil && err != errAgain {
			return held, err
		}
		if e == nil {
			continue
		}
		held = append(held, e)
	}
	if len(c.needs) > 0 { // also if the needs were added before holdAreas was called
		return held, errAgain
	}
	return held, nil
}

// pages returns the whole pages that contain an area.
func (a *area) pages() (lo, size uint64) {
	lo = a.addr &^ (pageSize - 1)
	return lo, (a.addr + a.n - lo + pageSize - 1) &^ (pageSize - 1)
}

// requestRemap asks the shim to remap the pages of an area into shared memory. kind is needRemap, or
// needTryRemap if the call can also succeed with the pages where they are.
func (c *call) requestRemap(a area, kind uint16) error {
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
		overlaps := lo < n.addr+n.length && n.addr < lo+size
		if !isRemap(n.kind) || !overlaps {
			continue
		}
		if lo >= n.addr && lo+size <= n.addr+n.length {
			return nil
		}
		// Two areas share a page, such as a ring and the doorbell record right behind it.
		// Both become one extent.
		end := max(lo+size, n.addr+n.length)
		lo = min(lo, n.addr)
		c.withdrawRemap(i)
		return c.requestRemap(area{name: a.name, addr: lo, n: end - lo, align: 1}, kind)
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
	if len(c.lent) == maxFDs { // an answer has no more; this area follows when the shim repeats the call
		return errAgain
	}
	e, err := c.p.memory.make(movedName, lo, size)
	if err != nil {
		return err
	}
	if old := c.p.pending[lo]; old != nil { // for an earlier call, for which the shim sent no result
		c.p.memory.discard(old)
	}
	c.p.pending[lo] = e
	c.needs = append(c.needs, wireNeed{kind: kind, addr: lo, length: size})
	c.lent = append(c.lent, e.mem.File())
	return nil
}

// withdrawRemap withdraws c.needs[i], which is of the remapping of pages, and discards its memory.
func (c *call) withdrawRemap(i int) {
	file := 0 // index in c.lent, which has one file for each need to remap, in the same order
	for _, n := range c.needs[:i] {
		if isRemap(n.kind) {
			file++
		}
	}
	addr := c.needs[i].addr
	c.needs = slices.Delete(c.needs, i, i+1)
	c.lent = slices.Delete(c.lent, file, file+1)
	c.p.memory.discard(c.p.pending[addr])
	delete(c.p.pending, addr)
}

// takeResults handles the shim's results for the pages of an area. It adds the extents that the shim has
// mapped to the memory of the process, and returns an error if a page could not be remapped.
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

// addUse makes an extent a region of this context, if it is none yet, and counts one more use of the
// region. The caller holds the extent; on failure addUse undoes this hold. It refuses if the engine would
// not find the extent's memory at the n bytes from addr on.
func (x *uctx) addUse(e *extent, addr, n uint64) error {
	r := x.regions[e]
	err := x.hidden(e, r, addr, n)
	if err == nil && r == nil {
		err = x.placeRings(e)
	}
	if err == nil && r == nil {
		r = &region{serial: x.regionSerial}
		x.regionSerial++
		r.id, err = x.addRegion(e)
	}
	if err != nil {
		e.m.undoHold(e)
		return err
	}
	x.regions[e] = r
	x.mixed = x.mixed || e.m != x.owner
	r.users++
	return nil
}

// hidden returns an error if the engine would find the memory of another region at the n bytes from addr
// on. Of regions that overlap, the engine uses the newest one. r is the region of the extent, nil if it
// has none yet. Two processes that share a context can have different memory at one address.
func (x *uctx) hidden(e *extent, r *region, addr, n uint64) error {
	newest := r == nil || r.serial == x.regionSerial-1
	if newest && !x.mixed && e.m == x.owner {
		return nil // without a look at the others, of which there can be thousands
	}
	for other, its := range x.regions {
		switch {
		case other.m != e.m && other.overlaps(e.addr, e.size):
			return refuse(eINVAL, "memory at %#x: another process has registered other memory there in this context", addr)
		case r != nil && its.serial > r.serial && other.contains(addr, n) && !same(e, other, addr, n):
			return refuse(eINVAL, "memory at %#x: the program has registered other memory there, and not deregistered it", addr)
		}
	}
	return nil
}

// endHolds ends the uses and the holds that a destroyed object had of extents.
func (x *uctx) endHolds(held []*extent) {
	for _, e := range held {
		if x.endUse(e) {
			e.m.endHold(e)
		}
	}
	x.dropBusy()
}

// undoHolds ends the uses and the holds that were taken for an object that could not be made after all.
func (x *uctx) undoHolds(held []*extent) {
	for _, e := range held {
		if x.endUse(e) {
			e.m.undoHold(e)
		}
	}
}

// endUse ends one use of an extent's region, and drops the region after the last use. It reports whether
// the caller may end its hold of the extent. If the device still uses the region, endUse reports false,
// and dropBusy ends the use and the hold later. The device uses the newest of the regions that have an
// address, so a joined extent's region may have queues of objects that hold one of its parts.
func (x *uctx) endUse(e *extent) (ok bool) {
	r := x.regions[e]
	if r.users == 1 {
		if !x.dropRegion(r.id) {
			x.busy = append(x.busy, e)
			return false
		}
		delete(x.regions, e)
	}
	r.users--
	return true
}

// dropBusy tries again to drop regions that the device still used when the last object with a use of them
// was destroyed: in each call a few, because a program can have many.
func (x *uctx) dropBusy() {
	const most = 4
	for range min(most, len(x.busy)) {
		e := x.busy[0]
		x.busy = x.busy[1:]
		r := x.regions[e]
		switch {
		case r.users > 1: // objects use it anew
			r.users--
		case x.dropRegion(r.id):
			delete(x.regions, e)
		default:
			x.busy = append(x.busy, e)
			continue
		}
		e.m.endHold(e)
	}
}

// A region is the engine's region for an extent, in one context.
type region struct {
	id     uint32 // number that the engine has given the region
	serial uint64 // of two regions of a context, the newer one has the larger serial
	users  int    // number of uses: addUse and endUse count them
}
