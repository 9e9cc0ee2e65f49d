package packetring

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/nicless/nicless/internal/shm"
)

// A ring that is full again and again can be followed by a larger one, in other memory of the producer's,
// while packets are on the way. The last slot that the producer writes into the old ring says where the
// next packet is. The numbers of packets, and the count of those that were consumed, go on.
//
// The slot of a move has no headers and no payload, and instead:
//
//	word 1  page:32 | place:32; place is all ones but the lowest bit, and page says where the slots of the
//	        new ring begin, in units of PageSize bytes from the begin of the memory that both sides know
//	word 2  slots:32 | bytes of the data area:32
//	word 3  check sum:32, 0 in a ring without check sums | not used:32

const (
	// PageSize is the unit in which the begin of a larger ring is counted, in bytes.
	PageSize = 4096

	elsewhere = inSlot - 1 // place of a packet that says where the next one is
	moveSize  = 28         // bytes of the slot of a move
)

// grown is the larger ring that a producer moves to.
type grown struct {
	next atomic.Pointer[enlarged]
	left atomic.Uint64 // number of the first packet in the ring that was moved to last; 0: there was no move
}

// enlarged is a ring that is ready for its first packet.
type enlarged struct {
	g    Geometry
	page uint32
	ring []byte
	ends []uint64
}

// Full returns how often there was no room for a packet. It is safe for concurrent use.
func (p *Producer) Full() uint64 { return p.full.Load() }

// Grow makes the producer go on in another ring as soon as it finds the present one full, and has room
// again for one packet more. ring are the slots and the data area, which nobody uses; page is where they
// begin, as the consumer counts (Consumer.Space). Grow is safe for concurrent use. It is
// called again when the move before has ended: Consumed has reached Moved.
func (p *Producer) Grow(ring []byte, g Geometry, page uint32) error {
	if err := g.check(Place{ring, p.consumerLine}); err != nil {
		return err
	}
	ring = ring[:g.RingSize()]
	slots := shm.Blocks(ring[:g.Slots*SlotSize])
	for i := range g.Slots {
		slots[i*lines].PublishFirst(0)
	}
	if p.cache != nil {
		p.cache.WriteBack(ring[:g.Slots*SlotSize])
	}
	p.larger.next.Store(&enlarged{g, page, ring, make([]uint64, g.Slots)})
	return nil
}

// Cancel withdraws the ring of Grow, and reports whether the producer had not moved to it.
func (p *Producer) Cancel() bool { return p.larger.next.Swap(nil) != nil }

// Moved returns the number of the first packet in the ring that the producer has moved to last, 0 if it has
// not moved since Reset. The memory of the ring before is free when the consumer has counted that far
// (Consumed). It is safe for concurrent use.
func (p *Producer) Moved() uint64 { return p.larger.left.Load() }

// Consumed returns the consumer's count, as it is in the memory. It is safe for concurrent use.
//
// Observe: consumed count. Published by Consumer.Free.
func (p *Producer) Consumed() uint64 {
	if p.cache != nil {
		p.cache.Invalidate(p.consumerLine)
	}
	return p.consumed.Observe()
}

// move goes on in the larger ring, if there is one, and reports whether it has. There is room for one packet.
// Blank slots of the new ring have the sequence 0, so they must not be reached when that is the next one.
//
// Publish: word 0 of a slot. Observed by Consumer.Next.
func (p *Producer) move() bool {
	if p.larger.next.Load() == nil {
		return false
	}
	e := p.larger.next.Swap(nil)
	if e == nil {
		return false // it was withdrawn
	}
	if uint64(uint32(p.next))+uint64(e.g.Slots)+1 >= 1<<32 {
		p.larger.next.Store(e) // later
		return false
	}
	at := p.next & p.mask
	first := &p.slots[at*lines]
	slot, be := p.stage[:], binary.BigEndian // no packet is begun: Reserve is about to begin one
	be.PutUint64(slot[8:], uint64(e.page)<<32|elsewhere)
	be.PutUint32(slot[16:], uint32(e.g.Slots))
	be.PutUint32(slot[20:], uint32(e.g.Data))
	be.PutUint32(slot[24:], 0)
	if p.drafts != nil {
		be.PutUint32(slot[24:], moveSum(slot, p.next+1))
	}
	copy(first[8:], slot[8:moveSize])
	p.next++
	first.PublishFirst(uint64(uint32(p.next)) << 32)
	if p.cache != nil {
		p.cache.WriteBack(first[:])
	}
	slots := e.ring[:e.g.Slots*SlotSize]
	p.memory[0], p.slots, p.mem, p.data = e.ring, shm.Blocks(slots), slots, e.ring[len(slots):]
	p.mask, p.ends = uint64(e.g.Slots)-1, e.ends
	p.base, p.limit, p.tail, p.freed = p.next, p.next+p.mask+1, 0, 0
	p.larger.left.Store(p.next)
	return true
}

// Space says in which memory the producer may move the ring. Bytes outside of it are never touched. nil, as
// at first: a move is an error.
func (c *Consumer) Space(space []byte) { c.space = space }

// Moves returns where the ring is: the page, counted from the begin of the space, how many slots there are,
// and the number of the first packet in them. slots is 0 if the ring is where Open has put it. It is safe
// for concurrent use with at most one move at a time.
func (c *Consumer) Moves() (page uint32, slots int, base uint64) {
	n := c.moves.Load()
	if n == 0 {
		return 0, 0, 0
	}
	return uint32(n >> 32), 1 << (n & 0xff), c.movedAt.Load()
}

// follow goes on in the ring that a slot names, with the next packet. The slot may change at any time, so
// each word is read once. There may be another move in the first slot of that ring: the caller comes back
// for it.
func (c *Consumer) follow(first *shm.Block) error {
	page, size := first.Word(1)>>32, first.Word(2)
	g := Geometry{Slots: int(size >> 32), Data: int(size & (1<<32 - 1))}
	if err := g.Check(); err != nil {
		return corrupt("a move to a ring that cannot be: %v", err)
	}
	from, space := page*PageSize, uint64(len(c.space))
	if from > space || uint64(g.RingSize()) > space-from {
		return corrupt("a move to %d bytes at byte %d of %d", g.RingSize(), from, space)
	}
	if err := c.Open(c.space[from:], g); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	c.next++
	c.movedAt.Store(c.next)
	c.moves.Store(page<<32 | 1<<8 | uint64(bits.TrailingZeros(uint(g.Slots))))
	return nil
}
