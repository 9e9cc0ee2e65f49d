package pool

import (
	"fmt"

	"github.com/nicless/nicless/internal/packetring"
)

// A Map says where the parts of a formatted pool are, for tests and tools that look at the memory or
// damage it.
type Map struct{ h header }

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

// Gap is the unused part between the header and the first node block.
func (m Map) Gap() Part { return Part{headerSize, nodesAt - headerSize} }

// Block is what a node writes about itself and about the others.
func (m Map) Block(node int) Part { return Part{nodeAt(node), nodeSize} }

// Line is what a node writes about another one. It is part of the node's block.
func (m Map) Line(node, about int) Part { return Part{linkAt(node, about), line} }

// Board is what the clients of a node's engine announce.
func (m Map) Board(node int) Part { return Part{boardsAt + uint64(node)*boardSize, boardSize} }

// Ring has the packets from one node to another.
func (m Map) Ring(from, to int) Part { return Part{m.h.ringAt(from, to), m.h.stride()} }

// Consumed is the line of a ring that the receiver writes.
func (m Map) Consumed(from, to int) Part {
	return Part{m.h.ringAt(from, to) + packetring.ConsumerAt, line}
}
