package packetring

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/shm"
)

// Short packets, whose headers and payload are in the first line of their slot, need no memory of
// their own: the producer gives them as words, and the consumer reads them where they are.

// PublishLine is Reserve and Publish for a packet of at most LineRoom bytes, and reports whether there
// was room. size is the length of its headers in bits 23..16, and that of its payload in bits 15..0.
// The words are headers and payload, big-endian, as they follow each other.
//
// Publish: word 0 of a slot. Observed by Consumer.Next.
func (p *Producer) PublishLine(path, size uint32, w2, w3, w4, w5, w6, w7 uint64) bool {
	if p.next == p.limit && !p.refill() {
		return false
	}
	if p.drafts != nil {
		return p.publishWords(size, w2, w3, w4, w5, w6, w7)
	}
	at := p.next & p.mask
	first := &p.slots[at*lines]
	be := binary.BigEndian
	be.PutUint64(first[8:], uint64(path)<<32|inSlot)
	be.PutUint64(first[16:], w2)
	be.PutUint64(first[24:], w3)
	be.PutUint64(first[32:], w4)
	be.PutUint64(first[40:], w5)
	be.PutUint64(first[48:], w6)
	be.PutUint64(first[56:], w7)
	p.ends[at] = p.tail
	p.next++
	first.PublishFirst(uint64(uint32(p.next))<<32 | uint64(size))
	if p.cache != nil {
		p.cache.WriteBack(first[:])
	}
	return true
}

// MostLines is how many packets Lines begins at most.
const MostLines = 16

// Lines returns the first lines of up to n packets of one line, fewer if there is not room for all, at
// most MostLines. The caller writes headers and payloads from byte HeadSize on. PublishLines sends them.
func (p *Producer) Lines(n int) []shm.Block {
	return p.batch[:max(min(n, p.Free(), MostLines), 0)]
}

// PublishLines sends the first n packets that Lines has begun, on a path; size is as in PublishLine.
//
// Publish: word 0 of a slot. Observed by Consumer.Next.
func (p *Producer) PublishLines(path, size uint32, n int) {
	if p.drafts != nil {
		for i := range n {
			p.publishDraft(&p.batch[i], size)
		}
		return
	}
	be := binary.BigEndian
	for left := p.batch[:n]; len(left) > 0; {
		at := p.next & p.mask
		k := min(len(left), int(p.mask+1-at)) // the ring begins anew
		batch, number, tail := left[:k], p.next, p.tail
		ends := p.ends[at:][:len(batch)] // the compiler sees that the loop stays within both
		for i := range batch {
			ends[i] = tail
			number++
			be.PutUint64(batch[i][0:], uint64(uint32(number))<<32|uint64(size))
			be.PutUint64(batch[i][8:], uint64(path)<<32|inSlot)
		}
		p.next = number
		shm.PublishLines(p.slots[at*lines:], lines, batch)
		if p.cache != nil {
			for i := range k {
				p.cache.WriteBack(p.slots[(at+uint64(i))*lines][:])
			}
		}
		left = left[k:]
	}
}

// Peek returns the first line of the next packet's slot, and size as in PublishLine, if there is a packet,
// its payload is in the slot, and the memory is coherent and has no check sums; otherwise nil. The producer
// can change the line at any time, so the caller reads each word once, and checks the lengths. Skip takes
// the packet. empty says that there is no packet, so that Next would return none.
//
// Observe: word 0 of a slot. Published by Producer.Publish.
func (c *Consumer) Peek() (first *shm.Block, size uint32, empty bool) {
	if c.careful {
		return nil, 0, false // Next invalidates lines, and checks sums
	}
	first = &c.slots[c.next&c.mask*lines]
	word := first.Word(0)
	if uint32(word>>32) != uint32(c.next+1) {
		return nil, 0, true
	}
	if uint32(first.Word(1)) != inSlot {
		return nil, 0, false
	}
	return first, uint32(word) & 0xffffff, false
}

// Skip takes the packet that Peek has returned.
func (c *Consumer) Skip() { c.next++ }
