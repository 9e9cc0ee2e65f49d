package packetring

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nicless/nicless/internal/shm"
)

// A Consumer is the receiving end of a ring. It is not safe for concurrent use.
type Consumer struct {
	slots  []shm.Block
	memory [2][]byte // slots and data; count
	mem    []byte    // the slots as bytes
	data   []byte
	cache  Cache
	verify *verifier // nil: no check sums
	mask   uint64
	next   uint64 // number of the next packet
	freed  uint64 // number of packets that the producer knows to be consumed

	consumed     *shm.Word64
	consumerLine []byte

	careful        bool          // lines are invalidated, or sums are checked
	space          []byte        // where the producer may move the ring; nil: nowhere
	moves, movedAt atomic.Uint64 // see Moves

	_ [line]byte // other objects, which other threads may write, are on other lines
}

// A Packet is what a consumer has taken from a ring.
type Packet struct {
	Path    uint32
	N       int           // bytes of the headers
	Head    [MaxHead]byte // the headers, a private copy; N bytes are valid
	Payload []byte        // bytes in the ring, valid until Free; they may change at any time. See CheckSums
}

// ErrCorrupt says that the producer has written lengths that are not possible. The ring
// cannot be used any more.
var ErrCorrupt = errors.New("packetring: corrupt slot")

// NewConsumer returns the consumer of the ring in mem; see NewProducer.
func NewConsumer(mem []byte, g Geometry, cache Cache) (*Consumer, error) {
	at, err := g.in(mem)
	if err != nil {
		return nil, err
	}
	c := NewConsumerAt(at.Count, cache)
	if err := c.Open(at.Ring, g); err != nil {
		return nil, err
	}
	c.Reset(0)
	return c, nil
}

// NewConsumerAt returns a consumer that counts in these 64 bytes, which begin on a cache line. It has no ring
// before Open.
func NewConsumerAt(count []byte, cache Cache) *Consumer {
	return &Consumer{
		cache: cache, careful: cache != nil, memory: [2][]byte{1: count[:line]},
		consumed: shm.Word64At(count, 0), consumerLine: count[:line],
	}
}

// Open gives the consumer another ring: slots and data area. Reset follows. Neither side uses the ring
// meanwhile.
func (c *Consumer) Open(ring []byte, g Geometry) error {
	if err := g.check(Place{ring, c.memory[1]}); err != nil {
		return err
	}
	slots := ring[:g.Slots*SlotSize]
	c.memory[0] = ring[:g.RingSize()]
	c.slots, c.mem, c.mask = shm.Blocks(slots), slots, uint64(g.Slots)-1
	c.data = ring[len(slots):][:g.Data:g.Data]
	return nil
}

// Reset begins the ring anew with the packet of number base; see Producer.Reset.
func (c *Consumer) Reset(base uint64) {
	c.next = base
	if c.verify != nil {
		c.verify.looks = 0
	}
	c.moves.Store(0)
	c.publish()
}

// Memory returns all bytes of the ring, in two parts.
func (c *Consumer) Memory() [2][]byte { return c.memory }

// Received returns the number of the next packet. From the base on, packets are numbered one by one.
func (c *Consumer) Received() uint64 { return c.next }

// Slots returns how many packets the ring has at most.
func (c *Consumer) Slots() uint64 { return c.mask + 1 }

// Ready reports whether Next would return a packet or an error.
func (c *Consumer) Ready() bool {
	if c.cache != nil {
		c.refresh()
	}
	return uint32(c.slots[c.next&c.mask*lines].Word(0)>>32) == uint32(c.next+1)
}

// refresh invalidates the first line of the next packet's slot.
func (c *Consumer) refresh() { c.cache.Invalidate(c.mem[c.next&c.mask*SlotSize:][:line]) }

// Waiting reports whether a packet follows those that Free has given back. Unlike the other
// methods it is safe for concurrent use: a carrier calls it while the consumer's thread sleeps.
func (c *Consumer) Waiting() bool {
	n := c.consumed.Observe()
	at := n & c.mask
	if c.cache != nil {
		c.cache.Invalidate(c.mem[at*SlotSize:][:line])
	}
	return uint32(c.slots[at*lines].Word(0)>>32) == uint32(n+1)
}

// Next takes the next packet. ok is false if there is none. An error wraps ErrCorrupt. The
// packet's payload stays in the ring until Free.
//
// Observe: word 0 of a slot. Published by Producer.Publish.
func (c *Consumer) Next(p *Packet) (ok bool, err error) {
	at := c.next & c.mask
	first := &c.slots[at*lines]
	if c.cache != nil {
		c.cache.Invalidate(c.mem[at*SlotSize:][:line])
	}
	word := first.Word(0)
	if uint32(word>>32) != uint32(c.next+1) {
		return false, nil
	}
	if c.verify != nil {
		return c.nextChecked(p, at, word)
	}
	second := first.Word(1)
	head, n, place := int(word>>16&0xff), int(word&0xffff), second&inSlot
	if head > MaxHead {
		return false, corrupt("headers of %d bytes; at most %d are possible", head, MaxHead)
	}
	p.Path, p.N = uint32(second>>32), head
	p.Head = [MaxHead]byte(first[HeadSize:])
	if place == inSlot {
		if head+n > Inline {
			return false, corrupt("headers and payload of %d bytes in a slot; at most %d fit", head+n, Inline)
		}
		from := at*SlotSize + HeadSize + uint64(head)
		p.Payload = c.mem[from:][:n:n]
		if c.cache != nil && HeadSize+head+n > line {
			c.cache.Invalidate(c.mem[at*SlotSize+line:][:line])
		}
	} else {
		from := place * line
		if from+uint64(n) > uint64(len(c.data)) {
			if place == elsewhere && c.space != nil {
				return false, c.follow(first)
			}
			return false, corrupt("payload of %d bytes at byte %d of a data area of %d", n, from, len(c.data))
		}
		p.Payload = c.data[from:][:n:n]
		if c.cache != nil {
			c.cache.Invalidate(p.Payload)
		}
	}
	c.next++
	return true, nil
}

// corrupt returns an error that wraps ErrCorrupt.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// Free gives the memory of all packets that Next has returned back to the producer.
func (c *Consumer) Free() {
	if c.freed != c.next {
		c.publish()
	}
}

// publish publishes how many packets have been consumed.
//
// Publish: consumed count. Observed by Producer.observe.
func (c *Consumer) publish() {
	c.freed = c.next
	c.consumed.Publish(c.next)
	if c.cache != nil {
		c.cache.WriteBack(c.consumerLine)
	}
}
