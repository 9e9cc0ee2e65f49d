package pool

import (
	"fmt"

	"github.com/nicless/nicless/internal/shm"
)

// A Map says where the parts of a formatted pool are, for tests and tools that look at the memory or
// damage it.
type Map struct{ h header }

// PairSize is the size of a pair in a node's table.
const PairSize = pairSize

// A Part is some bytes of a pool.
type Part struct{ Offset, Size uint64 }

// ReadMap reads the header of the pool that mem begins with.
func ReadMap(mem []byte) (Map, error) {
	if len(mem) < headerSize {
		return Map{}, fmt.Errorf("pool: %d bytes; a header has %d", len(mem), headerSize)
	}
	v := view{mem: mem}
	var b [headerSize]byte
	v.read(0, b[:])
	h, err := parseHeader(&b, uint64(len(mem)))
	if err != nil {
		return Map{}, fmt.Errorf("pool: %w", err)
	}
	return Map{h}, nil
}

// Nodes returns how many nodes the pool has room for.
func (m Map) Nodes() int { return m.h.nodes }

// Size returns how many bytes the pool uses.
func (m Map) Size() uint64 { return m.h.size }

// Gap is the unused part between the header and the first node's part.
func (m Map) Gap() Part { return Part{headerSize, partsAt - headerSize} }

// Part is all that a node writes.
func (m Map) Part(node int) Part { return Part{m.h.partAt(node), m.h.part()} }

// Life is the line that says that a node lives.
func (m Map) Life(node int) Part { return Part{m.h.partAt(node) + lifeAt, line} }

// Description is what a node says of itself.
func (m Map) Description(node int) Part { return Part{m.h.partAt(node) + describeAt, describeSize} }

// Board is what the clients of a node's engine announce.
func (m Map) Board(node int) Part { return Part{m.h.partAt(node) + boardAt, boardSize} }

// Names is which nodes the table of a node's pairs names.
func (m Map) Names(node int) Part { return Part{m.h.partAt(node) + namesAt, namesSize} }

// Table is the table of a node's pairs.
func (m Map) Table(node int) Part {
	return Part{m.h.pairAt(node, 0), uint64(m.h.pairs()) * pairSize}
}

// Rings is the memory for rings that a node sends into.
func (m Map) Rings(node int) Part {
	return Part{m.h.partAt(node) + m.h.ringsAt(), m.h.pages() * shm.PageSize}
}

// Pair is what a node writes about the two rings between it and another node. ok is false if they are not
// open.
func (m Map) Pair(mem []byte, from, to int) (pair Part, ok bool) {
	v := view{mem: mem}
	i := v.find(&m.h, from, to)
	return Part{m.h.pairAt(from, max(i, 0)), pairSize}, i >= 0
}

// Ring has the packets from one node to another. ok is false if there is no ring.
func (m Map) Ring(mem []byte, from, to int) (ring Part, slots int, ok bool) {
	at, ok := m.Pair(mem, from, to)
	if !ok {
		return Part{}, 0, false
	}
	v := view{mem: mem}
	e := v.pair(at.Offset)
	space := m.Rings(from)
	if _, err := e.ringIn(mem[space.Offset:][:space.Size]); err != nil {
		return Part{}, 0, false
	}
	return Part{space.Offset + uint64(e.page)*shm.PageSize, uint64(e.ring.RingSize())}, e.ring.Slots, true
}

// Consumed is the line in which the receiver of a pair counts the packets that it has consumed.
func Consumed(pair Part) Part { return Part{pair.Offset + countAt, line} }
