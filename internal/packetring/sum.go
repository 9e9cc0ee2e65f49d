package packetring

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/nicless/nicless/internal/shm"
)

// A ring can carry a check sum with each packet, for memory in which stale or blank bytes may stand where a
// packet was written. All packets of such a ring have the path 0, and the sum is in place of the path. It is
// the CRC-32C of these bytes, 1 if that is 0, so that blank memory never has the right one:
//
//	number of the packet + 1:64 | reserved:8 | head:8 | payload:16 | place:32 | headers | payload
//
// The number makes the bytes of an earlier packet at the same place wrong. CRC-32C, because amd64 and arm64
// have instructions for it; it finds each burst of up to 32 wrong bits, and other errors but for one in 2^32.
// It protects from memory and not from nodes: a node that can write a ring can write a right sum.
//
// The slot of a move has its sum in the upper half of word 3, of the number, word 1 and word 2.
//
// Both sides sum up private copies, and use the same copies: what is in the ring may change at any time.

// MostLooks is how often a consumer looks at a packet whose check sum is wrong before it gives the ring up,
// once in each call of Next. Memory without coherence is read anew each time. The bytes that the producer has
// written back are there at the first look, so a few looks are enough for hardware that is late. The
// longest packets make this 16 MiB to copy.
const MostLooks = 256

// ErrSum says that a packet has a wrong check sum, however often it is read. It wraps ErrCorrupt.
var ErrSum = fmt.Errorf("%w: wrong check sum", ErrCorrupt)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the check sum of the bytes that a slot has before it is in the ring, and of a payload in the
// data area.
func sumOf(slot, payload []byte) uint32 {
	sum := crc32.Update(0, castagnoli, slot)
	if len(payload) > 0 {
		sum = crc32.Update(sum, castagnoli, payload)
	}
	if sum == 0 {
		return 1
	}
	return sum
}

// A drafts is what a producer has of a ring with check sums.
type drafts struct {
	payload []byte    // of the packet that is being made, if it does not fit into the slot
	line    shm.Block // a packet of one line
}

// CheckSums makes the packets of the ring carry check sums. Payloads have at most longest bytes from then on,
// and the path is ignored. Both sides of a ring call it before the first packet, or neither does.
func (p *Producer) CheckSums(longest int) { p.drafts = &drafts{payload: make([]byte, longest)} }

// sum returns the check sum of the packet in stage, and copies its payload into the data area if it belongs
// there.
func (p *Producer) sum() uint32 {
	slot, payload, place := p.stage[:HeadSize+p.head], []byte(nil), uint64(inSlot)
	if p.place == inSlot {
		slot = p.stage[:HeadSize+p.head+p.payload]
	} else {
		off := p.place % uint64(len(p.data))
		payload, place = p.drafts.payload[:p.payload], off/line
		copy(p.data[off:], payload)
	}
	be := binary.BigEndian
	be.PutUint64(slot[0:], p.next+1)
	be.PutUint64(slot[8:], uint64(p.head)<<48|uint64(p.payload)<<32|place)
	return sumOf(slot, payload)
}

// publishWords is PublishLine when there is room.
func (p *Producer) publishWords(size uint32, w2, w3, w4, w5, w6, w7 uint64) bool {
	b, be := &p.drafts.line, binary.BigEndian
	be.PutUint64(b[16:], w2)
	be.PutUint64(b[24:], w3)
	be.PutUint64(b[32:], w4)
	be.PutUint64(b[40:], w5)
	be.PutUint64(b[48:], w6)
	be.PutUint64(b[56:], w7)
	p.publishDraft(b, size)
	return true
}

// publishDraft sends a packet of one line, which is private, and begins at byte HeadSize.
//
// Publish: word 0 of a slot. Observed by Consumer.Next.
func (p *Producer) publishDraft(b *shm.Block, size uint32) {
	at, be := p.next&p.mask, binary.BigEndian
	first := &p.slots[at*lines]
	be.PutUint64(b[0:], p.next+1)
	be.PutUint64(b[8:], uint64(size)<<32|inSlot)
	sum := sumOf(b[:min(HeadSize+int(size>>16)+int(size&0xffff), line)], nil)
	be.PutUint64(b[8:], uint64(sum)<<32|inSlot)
	*(*[line - 8]byte)(first[8:]) = [line - 8]byte(b[8:])
	p.ends[at] = p.tail
	p.next++
	first.PublishFirst(uint64(uint32(p.next))<<32 | uint64(size))
	if p.cache != nil {
		p.cache.WriteBack(first[:])
	}
}

// moveSum returns the check sum of a move, whose slot is private. It changes word 0.
func moveSum(slot []byte, number uint64) uint32 {
	binary.BigEndian.PutUint64(slot, number)
	return sumOf(slot[:24], nil)
}

// A verifier is what a consumer has of a ring with check sums.
type verifier struct {
	slot    [SlotSize]byte // private copy of the slot that was looked at last
	payload []byte         // private copy of its payload, if that was in the data area
	looks   int            // at the next packet, each of which has found a wrong sum
	wrong   *atomic.Uint64 // all such looks
}

// CheckSums makes the consumer check the packets of a ring whose producer was given check sums with the same
// longest payload. Each look that finds a wrong sum adds 1 to wrong. Packet.Payload is a private copy then,
// valid until the next call of Next.
func (c *Consumer) CheckSums(longest int, wrong *atomic.Uint64) {
	c.careful = true
	c.verify = &verifier{payload: make([]byte, longest), wrong: wrong}
}

// nextChecked is Next for a ring with check sums, when word 0 of the slot says that the packet is there.
func (c *Consumer) nextChecked(p *Packet, at, word uint64) (ok bool, err error) {
	v, slot := c.verify, c.mem[at*SlotSize:][:SlotSize]
	copy(v.slot[8:line], slot[8:line])
	be := binary.BigEndian
	second := be.Uint64(v.slot[8:])
	head, n, place := int(word>>16&0xff), int(word&0xffff), second&inSlot
	if head > MaxHead {
		return false, corrupt("headers of %d bytes; at most %d are possible", head, MaxHead)
	}
	used, payload := HeadSize+head, []byte(nil)
	switch {
	case place == inSlot:
		if head+n > Inline {
			return false, corrupt("headers and payload of %d bytes in a slot; at most %d fit", head+n, Inline)
		}
		used += n
		if used > line {
			if c.cache != nil {
				c.cache.Invalidate(slot[line:])
			}
			copy(v.slot[line:used], slot[line:used])
		}
		p.Payload = v.slot[HeadSize+head:][:n:n]
	case place == elsewhere && c.space != nil:
		return false, c.followChecked()
	default:
		from := place * line
		if from+uint64(n) > uint64(len(c.data)) {
			return false, corrupt("payload of %d bytes at byte %d of a data area of %d", n, from, len(c.data))
		}
		if n > len(v.payload) {
			return false, corrupt("payload of %d bytes; at most %d are possible", n, len(v.payload))
		}
		shared := c.data[from:][:n]
		if c.cache != nil {
			c.cache.Invalidate(shared)
		}
		payload = v.payload[:n:n]
		copy(payload, shared)
		p.Payload = payload
	}
	be.PutUint64(v.slot[0:], c.next+1)
	be.PutUint64(v.slot[8:], word<<32|place)
	if found, right := uint32(second>>32), sumOf(v.slot[:used], payload); found != right {
		return false, c.lookAgain(found, right)
	}
	p.Path, p.N = 0, head
	p.Head = [MaxHead]byte(v.slot[HeadSize:])
	v.looks = 0
	c.next++
	return true, nil
}

// followChecked is follow for the slot that was copied.
func (c *Consumer) followChecked() error {
	v := c.verify
	found, right := binary.BigEndian.Uint32(v.slot[24:]), moveSum(v.slot[:], c.next+1)
	if found != right {
		return c.lookAgain(found, right)
	}
	v.looks = 0
	return c.follow((*shm.Block)(v.slot[:line]))
}

// lookAgain counts a look at a packet with a wrong sum. It returns an error if that was the last one.
func (c *Consumer) lookAgain(found, right uint32) error {
	v := c.verify
	v.wrong.Add(1)
	v.looks++
	if v.looks < MostLooks {
		return nil
	}
	return fmt.Errorf("%w: packet %d has the sum %#08x, and the bytes in its place have %#08x, after %d looks", ErrSum, c.next, found, right, v.looks)
}
