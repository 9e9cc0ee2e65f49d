//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"slices"
)

// A ring may begin in a page in which another one ends: a program's own allocator gives out memory in any
// pieces. So an area can be in several extents, while the device needs its memory in one. Memory that is
// shared already stays where it is, because others use it. The server maps the pages of all extents once
// more, one after the other, and this mapping is the extent of the area: a joined one.

// A part is pages of a joined extent.
type part struct {
	addr, size uint64
	extent     *extent // which has them too, and is held by the joined one; not joined itself
}

// holdParts does the same as holdAreas for one area that may be in several extents: it asks the shim to
// remap what is in none, and returns the extent that has the whole area.
func (c *call) holdParts(a area) (e *extent, err error) {
	if err := c.takeResults(a); err != nil {
		return nil, err
	}
	ranges, err := c.p.memory.parts(a.addr, a.n)
	if err != nil {
		return nil, refuse(eFAULT, "%s: %v", a.name, err)
	}
	if len(ranges) > maxParts {
		return nil, refuse(eNOMEM, "%s: %d bytes at %#x: more than %d parts of it are memory of umems, rings and memory regions, and what is between",
			a.name, a.n, a.addr, maxParts)
	}
	var held []part
	defer func() {
		for _, p := range held {
			p.extent.m.undoHold(p.extent)
		}
	}()
	absent := 0
	for _, r := range ranges {
		e, err := c.p.memory.find(r.addr, r.n)
		if err != nil {
			return nil, refuse(eFAULT, "%s: %v", a.name, err)
		}
		if e == nil {
			absent++
			if absent > maxAbsent {
				return nil, refuse(eNOMEM, "%s: %d bytes at %#x: more than %d parts of it are not in shared memory yet, with parts between them that other umems, rings or memory regions have; register the whole first",
					a.name, a.n, a.addr, maxAbsent)
			}
			if err := c.requestRemap(area{a.name, r.addr, r.n, 1}, needRemap); err != nil && err != errAgain {
				return nil, err
			}
			continue
		}
		lo, size := (&area{addr: r.addr, n: r.n}).pages()
		held = append(held, part{lo, size, e})
	}
	if len(c.needs) > 0 {
		return nil, errAgain
	}
	e = held[0].extent
	if len(held) > 1 {
		if e, err = c.p.memory.join(held); err != nil {
			return nil, err
		}
	}
	held = nil
	return e, c.x.addUse(e, a.addr, a.n)
}

// Limits of an area in several extents. An answer has room for maxFDs parts that are moved into shared
// memory, and the shim repeats a call 4 times; the last answer has room for other areas. Each part is a
// mapping of the engine's, and ends with it under a lock of the whole process, so a ring may have as many
// neighbours as a program's allocator gives it, and no more.
const (
	maxAbsent = 3 * maxFDs
	maxParts  = 64
)

// parts divides the n bytes from addr on where they enter or leave an extent that is held. It ends when
// there are more than maxParts.
func (m *memory) parts(addr, n uint64) (list []ownRange, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var last *extent
	add := func(lo, hi uint64, e *extent) {
		if len(list) > 0 && e == last {
			list[len(list)-1].n += hi - lo
			return
		}
		list = append(list, ownRange{lo, hi - lo})
		last = e
	}
	end := addr + n
	if m.maps != nil {
		err = m.maps.over(addr, n, func(v vma) error {
			lo, hi, e := max(v.start, addr), min(v.end, end), m.heldIn(v)
			if e != nil && hi > e.addr+e.size { // behind the extent nothing is shared with the engine
				return refuse(eFAULT, "%d bytes at %#x: the program has enlarged the mapping at %#x, of which the %d bytes up to %#x are shared memory; destroy what uses them first",
					n, addr, v.start, e.size, e.addr+e.size)
			}
			add(lo, hi, e)
			if len(list) > maxParts {
				return errEnough
			}
			return nil
		})
		if err == errEnough {
			err = nil
		}
		return list, err
	}
	for at := addr; at < end; {
		e, next := m.heldAt(at, end)
		add(at, next, e)
		at = next
	}
	return list, nil
}

// errEnough ends the reading of mappings, and is no error.
var errEnough = errors.New("enough")

// heldIn returns the extent that a mapping is of, if it is held. m.mu is held.
func (m *memory) heldIn(v vma) *extent {
	for _, e := range m.extents {
		if e.holders > 0 && v.inode == e.inode && v.start-v.offset == e.addr {
			return e
		}
	}
	return nil
}

// heldAt returns the newest held extent with the byte at addr, nil if there is none, and up to where that
// holds, at most end. It takes each extent to be mapped. m.mu is held.
func (m *memory) heldAt(addr, end uint64) (in *extent, next uint64) {
	for _, e := range m.extents {
		switch {
		case e.holders == 0 || e.addr+e.size <= addr:
		case e.addr <= addr:
			in = e
		default:
			end = min(end, e.addr)
		}
	}
	if in != nil {
		end = min(end, in.addr+in.size)
	}
	return in, end
}

// join returns a joined extent, held for the caller, whose parts these are, without gaps. It has the
// callers' holds of their extents, unless it returns an error. It is not among m.extents: the next object
// with memory in several extents has them joined anew.
func (m *memory) join(parts []part) (*extent, error) {
	e := &extent{addr: parts[0].addr, holders: 1, parts: parts, m: m}
	pages := make([][]byte, len(parts))
	for i, p := range parts {
		e.size += p.size
		pages[i] = p.extent.at(p.addr, p.size)
	}
	var err error
	e.mem, err = m.engine.JoinMemory(m.uid, pages...)
	return e, err
}

// unjoin frees a joined extent, and ends its holds by end. m.mu is held.
func (m *memory) unjoin(e *extent, end func(*extent)) {
	m.engine.ReleaseMemory(m.uid, e.mem)
	for _, p := range e.parts {
		end(p.extent)
	}
}

// source returns the extent that has the page of addr, and up to where it does: e itself, or one of its
// parts.
func (e *extent) source(addr uint64) (in *extent, end uint64) {
	i := slices.IndexFunc(e.parts, func(p part) bool { return addr-p.addr < p.size })
	if i < 0 {
		return e, e.addr + e.size
	}
	p := &e.parts[i]
	return p.extent, p.addr + p.size
}

// same reports whether two extents, which both have the n bytes from addr on, have the same pages there.
func same(a, b *extent, addr, n uint64) bool {
	for at := addr; at < addr+n; {
		inA, endA := a.source(at)
		inB, endB := b.source(at)
		if inA != inB {
			return false
		}
		at = min(endA, endB)
	}
	return true
}
