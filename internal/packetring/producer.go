package packetring

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nicless/nicless/internal/shm"
)

// A Producer is the sending end of a ring. It is not safe for concurrent use.
type Producer struct {
	slots  []shm.Block
	memory [2][]byte // slots and data; count
	mem    []byte    // the slots
	data   []byte
	cache  Cache
	drafts *drafts // nil: no check sums
	mask   uint64
	base   uint64 // number of the first packet in these slots
	next   uint64 // number of the next packet
	limit  uint64 // the packet with this number has no slot yet

	consumed     *shm.Word64
	consumerLine []byte

	tail  uint64   // number of bytes of the data area that were used so far
	freed uint64   // number of bytes of the data area that the consumer has freed so far
	ends  []uint64 // for each slot, the value of tail after the packet in the slot

	larger grown // the ring that follows this one
	full   atomic.Uint64

	batch [MostLines]shm.Block // packets that Lines has begun

	// The packet that Reserve has begun. stage is its slot, which Publish copies into the ring. The
	// other side polls the slot's first line: if the line were written bit by bit, it would go back
	// and forth.
	stage         [SlotSize]byte
	head, payload int    // bytes of the headers and of the payload
	place         uint64 // position of the payload in the data area, counted like tail; or inSlot
}

// NewProducer returns the producer of the ring in mem, with the count of consumed packets before it. It
// begins with packet 0 and sets all slots to 0, so the consumer must begin after NewProducer has returned.
// mem begins on a cache line. cache is nil if the memory is coherent.
func NewProducer(mem []byte, g Geometry, cache Cache) (*Producer, error) {
	at, err := g.in(mem)
	if err != nil {
		return nil, err
	}
	return NewProducerAt(at, g, cache)
}

// NewProducerAt is NewProducer for a ring in any place.
func NewProducerAt(at Place, g Geometry, cache Cache) (*Producer, error) {
	if err := g.check(at); err != nil {
		return nil, err
	}
	slots := at.Ring[:g.Slots*SlotSize]
	p := &Producer{
		slots: shm.Blocks(slots), mem: slots,
		memory: [2][]byte{at.Ring[:g.RingSize()]},
		data:   at.Ring[len(slots):][:g.Data:g.Data], cache: cache, mask: uint64(g.Slots) - 1,
		ends: make([]uint64, g.Slots),
	}
	p.Consume(at.Count)
	p.Reset(0)
	return p, nil
}

// Consume names other memory in which the consumer counts what it has consumed: 64 bytes that begin on a
// cache line. It is called before Reset.
func (p *Producer) Consume(count []byte) {
	p.memory[1] = count[:line]
	p.consumed, p.consumerLine = shm.Word64At(count, 0), count[:line]
}

// Reset begins the ring anew with the packet of number base, 0 to MostBase. It sets all slots to 0, as
// NewProducer does. The consumer must call Reset with the same number. Both calls must return before either
// side uses the ring. If each use of some memory has a base of its own, drawn at random, a consumer that
// stood still while the memory was given to another ring takes no packet of that ring for its next one.
func (p *Producer) Reset(base uint64) {
	p.base, p.next, p.limit, p.tail, p.freed = base, base, base+p.mask+1, 0, 0
	p.larger.left.Store(0)
	clear(p.ends)
	for i := range p.ends {
		p.slots[i*lines].PublishFirst(0)
	}
	if p.cache != nil {
		p.cache.WriteBack(p.mem)
	}
}

// Memory returns all bytes of the ring, in two parts.
func (p *Producer) Memory() [2][]byte { return p.memory }

// Longest returns the length of the longest payload for which there is room whenever the ring is
// empty: half of the data area, because a payload is contiguous.
func (p *Producer) Longest() int { return min(max(len(p.data)/2, Inline-MaxHead), MaxPayload) }

// Sent returns the number of the next packet. From the base on, packets are numbered one by one.
func (p *Producer) Sent() uint64 { return p.next }

// Free returns how many packets the ring takes at least, if their payloads fit.
func (p *Producer) Free() int {
	if p.next == p.limit {
		p.observe()
	}
	return int(p.limit - p.next)
}

// Reserve returns the memory of the next packet: head bytes for its headers and n bytes for its
// payload. ok is false if there is no room now. The packet is sent by Publish. A second
// Reserve before Publish begins the packet anew. head is at most MaxHead, n at most MaxPayload and
// at most half of the data area, unless head + n is at most Inline. In a ring with check sums the memory is
// private.
func (p *Producer) Reserve(head, n int) (h, payload []byte, ok bool) {
	if p.next == p.limit && !p.refill() {
		return nil, nil, false
	}
	slot := &p.stage
	p.head, p.payload = head, n
	if head+n <= Inline {
		p.place = inSlot
		return slot[HeadSize:][:head:head], slot[HeadSize+head:][:n:n], true
	}
	payload, ok = p.reserveData(n)
	if ok && p.drafts != nil {
		payload = p.drafts.payload[:n:n]
	}
	return slot[HeadSize:][:head:head], payload, ok
}

// reserveData finds room for n contiguous bytes in the data area, or in that of the larger ring that Grow has
// prepared. It returns false if there is none.
func (p *Producer) reserveData(n int) ([]byte, bool) {
	size := uint64(len(p.data))
	if size == 0 {
		return nil, false
	}
	at := p.tail
	if off := at % size; off+uint64(n) > size {
		at += size - off // the rest of the area is too short
	}
	if end := at + uint64(n); end-p.freed > size {
		if !p.observe() || end-p.freed > size {
			if p.next != p.limit && p.move() {
				return p.reserveData(n) // the larger ring is empty
			}
			p.full.Add(1)
			return nil, false
		}
	}
	p.place = at
	off := at % size
	return p.data[off:][:n:n], true
}

// observe reads how many packets have been consumed, and reports whether a slot is free. A
// count that cannot be right is ignored: a hostile consumer only stops its own ring.
//
// Observe: consumed count. Published by Consumer.Free.
func (p *Producer) observe() bool {
	if p.cache != nil {
		p.cache.Invalidate(p.consumerLine)
	}
	n := p.consumed.Observe()
	if last := p.limit - (p.mask + 1); n > last && n <= p.next {
		p.limit = n + p.mask + 1
		p.freed = p.ends[(n-1)&p.mask]
	}
	return p.next != p.limit
}

// refill is observe for a caller that has found no room. It moves to the larger ring that Grow has
// prepared, and counts when there is no room still.
func (p *Producer) refill() bool {
	room := p.observe()
	if room && p.move() {
		return true
	}
	if !room {
		p.full.Add(1)
	}
	return room
}

// Publish sends the packet that Reserve has begun, on a path.
//
// Publish: word 0 of a slot. Observed by Consumer.Next.
func (p *Producer) Publish(path uint32) {
	if p.drafts != nil {
		path = p.sum()
	}
	at := p.next & p.mask
	first, second := &p.slots[at*lines], &p.slots[at*lines+1]
	place := uint64(inSlot)
	used := HeadSize + p.head
	if p.place != inSlot {
		off := p.place % uint64(len(p.data))
		place = off / line
		p.tail = (p.place + uint64(p.payload) + line - 1) &^ (line - 1)
		if p.cache != nil {
			p.cache.WriteBack(p.data[off:][:p.payload])
		}
	} else {
		used += p.payload
	}
	p.ends[at] = p.tail
	p.next++
	if used > line {
		*second = shm.Block(p.stage[line:])
		if p.cache != nil {
			p.cache.WriteBack(second[:])
		}
	}
	binary.BigEndian.PutUint64(p.stage[8:], uint64(path)<<32|place)
	*(*[line - 8]byte)(first[8:]) = [line - 8]byte(p.stage[8:])
	first.PublishFirst(uint64(uint32(p.next))<<32 | uint64(p.head)<<16 | uint64(p.payload))
	if p.cache != nil {
		p.cache.WriteBack(first[:])
	}
}

// Packet copies the headers of a packet that was published to k, and sets its payload, which stays in the
// ring. It reports whether the packet is still there: n is one of the last packets, as many as there are
// slots, and no larger ring has begun since. The payload may have been overwritten if its memory was
// reserved again. The other side may have written into the ring, so lengths are checked.
func (p *Producer) Packet(n uint64, k *Packet) bool {
	if n < p.base || n >= p.next || p.next-n > p.mask+1 {
		return false
	}
	at := n & p.mask
	first := &p.slots[at*lines]
	word, second := first.Word(0), first.Word(1)
	length, place := int(word&0xffff), second&inSlot
	k.Path, k.N = uint32(second>>32), min(int(word>>16&0xff), MaxHead)
	if p.drafts != nil {
		k.Path = 0
	}
	k.Head = [MaxHead]byte(first[HeadSize:])
	mem := p.data
	from := place * line
	if place == inSlot {
		mem, from = p.mem[at*SlotSize:][:SlotSize], uint64(HeadSize+k.N)
	}
	if from+uint64(length) > uint64(len(mem)) {
		return false
	}
	k.Payload = mem[from:][:length:length]
	return true
}
