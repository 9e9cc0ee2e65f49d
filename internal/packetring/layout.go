package packetring

import (
	"errors"
	"fmt"
)

// Sizes in bytes.
const (
	SlotSize = 128 // of a slot
	HeadSize = 16  // of the two words at the begin of a slot
	MaxHead  = 48  // most headers of one packet: with word 0 and word 1 they fill one cache line
	Inline   = SlotSize - HeadSize

	// LineRoom is how many bytes of headers and payload fit into the first line of a slot.
	LineRoom = line - HeadSize

	// MaxPayload is the longest payload of a packet.
	MaxPayload = 1<<16 - 1

	slotsAt    = 256
	ConsumerAt = 128 // the line that the consumer writes
	line       = 64
	lines      = SlotSize / line
	inSlot     = 1<<32 - 1 // place of a payload that is in the slot
)

// A Geometry is the size of a ring. Both sides of a ring must know it.
type Geometry struct {
	Slots int // number of slots: a power of two, from 2 to 2^16
	Data  int // bytes of the data area: a multiple of 64, at most 2^32; 0: payloads are in slots only
}

// maxData is the most bytes of a data area: positions in it are 32 bits wide.
const maxData = 1 << 32

// ErrGeometry says that a ring of this size is not possible.
var ErrGeometry = errors.New("packetring: impossible size")

// Check returns an error that wraps ErrGeometry if a ring cannot have this geometry.
func (g Geometry) Check() error {
	switch {
	case g.Slots < 2 || g.Slots > 1<<16 || g.Slots&(g.Slots-1) != 0:
		return fmt.Errorf("%w: %d slots; a power of two from 2 to %d is needed", ErrGeometry, g.Slots, 1<<16)
	case g.Data < 0 || g.Data%line != 0 || int64(g.Data) > maxData:
		return fmt.Errorf("%w: data area of %d bytes; a multiple of %d up to %d is needed", ErrGeometry, g.Data, line, int64(maxData))
	}
	return nil
}

// Size returns how many bytes a ring takes whose count of consumed packets lies before it.
func (g Geometry) Size() int { return slotsAt + g.RingSize() }

// RingSize returns how many bytes the slots and the data area take.
func (g Geometry) RingSize() int { return g.Slots*SlotSize + g.Data }

// A Place is the memory of a ring. Each of its two parts has one writer, and begins on a cache line. They
// need not be neighbours: in a pool each node keeps what it writes in memory of its own.
type Place struct {
	Ring  []byte // slots and data area, written by the producer; more bytes than the ring takes are ignored
	Count []byte // 64 bytes, written by the consumer: word 0 is the number of packets that it has consumed
}

// in returns the place of a ring whose count lies before it.
func (g Geometry) in(mem []byte) (Place, error) {
	if err := g.Check(); err != nil {
		return Place{}, err
	}
	if len(mem) < g.Size() {
		return Place{}, fmt.Errorf("%w: %d bytes of memory; %d are needed", ErrGeometry, len(mem), g.Size())
	}
	return Place{Ring: mem[slotsAt:g.Size()], Count: mem[ConsumerAt:][:line]}, nil
}

// check returns an error if a place cannot hold a ring of this geometry.
func (g Geometry) check(at Place) error {
	if err := g.Check(); err != nil {
		return err
	}
	if len(at.Ring) < g.RingSize() || len(at.Count) < line {
		return fmt.Errorf("%w: %d and %d bytes of memory; %d and %d are needed", ErrGeometry, len(at.Ring), len(at.Count), g.RingSize(), line)
	}
	return nil
}

// MostBase is the largest number that Reset takes for the first packet of a ring.
const MostBase = 1<<31 - 1

// A Cache makes memory visible to another host that shares it without coherence. Both methods
// take bytes of the ring's memory and act on all cache lines that the bytes touch.
type Cache interface {
	// WriteBack writes lines back to memory. It returns when they are there.
	WriteBack(b []byte)
	// Invalidate drops lines, so that the next load reads memory. Lines are clean.
	Invalidate(b []byte)
}
