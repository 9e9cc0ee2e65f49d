//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"
	"slices"
)

// libmlx5 maps the memory of a ring before it makes the queue, and unmaps it after it has destroyed the
// queue, which the server does not see. Memory that is made for one ring costs a request and eight system
// calls, here and in the shim, so small rings share memory: the shim maps more than the program has asked
// for, and hands out the rest by itself (docs/design/0079).

// maxRing is the largest ring, in bytes.
const maxRing = 1 << 30

// Sizes in bytes. A program that destroys its queues in another order than it makes them can keep
// sharedRings bytes for one ring of a page, so they are few. Of the requests 15 of 16 are saved for rings of
// two pages, and 3 of 4 for the largest ones.
const (
	sharedRings = 128 << 10
	smallRing   = 32 << 10 // larger ones have memory of their own
)

// A ringMemory is memory that rings of one context share. The context holds it until the program has
// unmapped all of it: a ring that is mapped can get a queue at any time.
type ringMemory struct {
	extent *extent
	region bool // the context has a use of the extent, so that the region stays while there is no queue
}

// mapRing makes memory for a ring and, if it is small, for rings to come. x.mu is held.
func (p *process) mapRing(x *uctx, m mapRequest) (*os.File, mappedAnswer, error) {
	if m.length > maxRing {
		return nil, mappedAnswer{}, refuse(eNOMEM, "mmap: a ring of %d bytes; at most %d are possible", m.length, maxRing)
	}
	x.endRings()
	if e := p.shareRings(x, m); e != nil {
		return e.mem.File(), mappedAnswer{given: sharedRings, alike: commandBits}, nil
	}
	e, err := p.memory.make("ring", m.addr, m.length)
	if err != nil {
		return nil, mappedAnswer{}, err
	}
	e.waits = true // it is freed with the last queue that uses it
	if err := p.memory.add(e); err != nil {
		p.memory.discard(e)
		return nil, mappedAnswer{}, err
	}
	return e.mem.File(), mappedAnswer{}, nil
}

// shareRings makes memory for several rings, and returns nil if that is not possible. It is not for contexts
// that the process shares with others: a large region of one process could hide another one's memory.
func (p *process) shareRings(x *uctx, m mapRequest) *extent {
	alone := p.memory == x.owner && !x.mixed
	if m.length > smallRing || m.room < sharedRings || !alone || !p.memory.maps.canSearch() {
		return nil
	}
	e, err := p.memory.make("ring", m.addr, sharedRings)
	if err != nil {
		return nil // perhaps there is memory for the ring alone
	}
	e.holders = 1
	if p.memory.add(e) != nil {
		p.memory.discard(e)
		return nil
	}
	x.rings = append(x.rings, &ringMemory{extent: e})
	return e
}

// endRings ends the context's hold of memory of which the program has unmapped everything. It looks at a
// few in each call, in turn, because a program can have many.
func (x *uctx) endRings() {
	const most = 4
	for range min(most, len(x.rings)) {
		r := x.rings[0]
		e := r.extent
		x.rings = x.rings[1:]
		switch {
		case e.m.mapsSome(e):
			x.rings = append(x.rings, r)
		case r.region:
			x.endHolds([]*extent{e})
		default:
			e.m.endHold(e)
		}
	}
}

// keepRegion makes an extent's region stay as long as the context has rings in the extent. The extent is
// a region now, because a queue uses it. Before, it could not be one: the shim had not sealed it.
func (x *uctx) keepRegion(e *extent) {
	i := slices.IndexFunc(x.rings, func(r *ringMemory) bool { return r.extent == e })
	if i >= 0 && !x.rings[i].region {
		x.rings[i].region = true
		x.regions[e].users++ // with the hold that shareRings has taken
	}
}

// placeRings makes regions of memory for rings that has none yet and that an extent overlaps, before the
// extent becomes a region: a program may have unmapped a ring without a queue, and use its addresses for
// other memory. Of regions that overlap, the engine uses the newest one.
func (x *uctx) placeRings(e *extent) error {
	for _, r := range x.rings {
		o := r.extent
		if r.region || o == e || !o.overlaps(e.addr, e.size) || !o.mem.Sealed() {
			continue
		}
		id, err := x.addRegion(o)
		if err != nil {
			return err
		}
		x.regions[o] = &region{id: id, serial: x.regionSerial, users: 1}
		x.regionSerial++
		r.region = true
	}
	return nil
}

// dropRings ends the holds of memory without a region, at the end of the context, which itself ends the
// uses of regions and their holds.
func (x *uctx) dropRings() {
	for _, r := range x.rings {
		if !r.region {
			r.extent.m.endHold(r.extent)
		}
	}
	x.rings = nil
}
