//go:build linux && (amd64 || arm64)

package announce

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A guard keeps WQEs from the device until they have arrived. A poster without a fence for the whole
// system can have its doorbell seen before the bytes of its WQE, and these in any order.
//
// Two reads that agree do not prove that a WQE is whole: a part of it can be late for longer than both
// reads take. So each slot that the device has taken is filled with a mark, and a WQE is whole when none
// of its words that the device uses is the mark any more. The slot is the device's then: the client writes
// it again only after the completion, which comes later.
type guard struct {
	client, own shm.Ring
	ring        []byte // of the client
	transport   wqe.Transport
	mark        uint32
}

// Guard makes s guard the client's ring, and returns the ring from which the device executes.
func (s *Source) Guard(ring []byte, t wqe.Transport) shm.Ring {
	own := shm.RingOf(make([]byte, len(ring)))
	s.guard = &guard{client: shm.RingOf(ring), own: own, ring: ring, transport: t}
	return own
}

// Bytes returns how much memory the guard takes for its ring.
func (s *Source) Bytes() int {
	if s == nil || s.guard == nil {
		return 0
	}
	return len(s.guard.ring)
}

// markOf returns the word that stands for "not written" in the ring of a queue: another one for each queue,
// so that bytes which one poster copies from ring to ring are not marks. It is odd, and its two highest bits
// are set. So it is no half of an aligned address, no length and no header of inline data.
func markOf(num uint32) uint32 { return num*markFactor ^ markBits | markOnes }

// The product of markFactor and markInverse is 1.
const (
	markFactor, markInverse uint32 = 0x9e3779b1, 0x0e8b2f51
	markBits                uint32 = 0xa5c396f0
	markOnes                uint32 = 0xc0000001
)

// isMark reports whether the 8 bytes are marks of some queue.
func isMark(v uint64) bool {
	word := uint32(v)
	if uint32(v>>32) != word || word&markOnes != markOnes {
		return false
	}
	// The bits of markOnes may have been 0 or 1 before markOf set them.
	for lost := range uint32(8) {
		before := word&^markOnes | lost&6<<29 | lost&1
		if (before^markBits)*markInverse < 1<<24 {
			return true
		}
	}
	return false
}

// Mark marks all slots of the guarded ring of queue pair num as not written, before Reset. It returns how
// many bytes these are: up to 2 MiB. It faults if the ring has no memory. No poster uses the ring meanwhile,
// so it stores more than 8 bytes at once, which takes a fraction of the time.
func (s *Source) Mark(num uint32) (stored int) {
	g := s.guard
	g.mark = markOf(num)
	var marks [4096]byte // whole blocks
	for i := uint64(0); i < uint64(len(marks)); i += 4 {
		shm.BE32At(marks[:], i).Publish(g.mark)
	}
	for at := 0; at < len(g.ring); at += len(marks) {
		copy(g.ring[at:], marks[:])
	}
	return len(g.ring)
}

// fill marks a slot as not written.
func (g *guard) fill(at uint64) {
	b := g.client.At(at)
	for i := uint64(0); i < wqe.BlockSize; i += 8 {
		shm.BE64At(b[:], i).Publish(uint64(g.mark)<<32 | uint64(g.mark))
	}
}

// A Late says why a WQE that is announced is not executed yet.
type Late struct {
	Why   LateKind
	Value uint32 // what was found
	At    uint32 // of LateBytes: the offset in the WQE
}

// A LateKind is what is missing of a WQE.
type LateKind uint8

// The kinds, in the order in which they are found.
const (
	NotLate     LateKind = iota
	LateIndex            // the control segment has another index
	LateQPN              // the control segment has another queue pair
	LateSize             // DS is 0, or more than is announced
	LateBytes            // words have not been written
	LateData             // one word of data has not been written, or is what the mark is
	LateChanges          // two reads differ
)

// take takes the WQE at block at if it is there, and returns its blocks, and how many blocks it has copied.
// left blocks are announced from there on. overdue: see words.
//
// Observe: the WQE's words. They are published by posters, in any order.
func (g *guard) take(at, left uint64, num uint32, overdue bool) (taken, copied uint64, late Late) {
	head := doorbell.Ring(g.client.At(at).Word(0))
	ds := uint64(head.DS())
	switch {
	case head.Index() != uint16(at):
		return 0, 0, Late{Why: LateIndex, Value: uint32(head.Index())}
	case head.QPN() != num:
		return 0, 0, Late{Why: LateQPN, Value: head.QPN()}
	case ds == 0 || (ds+3)/4 > left:
		return 0, 0, Late{Why: LateSize, Value: uint32(ds)}
	}
	blocks := (ds + 3) / 4
	for i := range blocks {
		from, to := g.client.At(at+i), g.own.At(at+i)
		for w := range uint(wqe.BlockSize / 8) {
			shm.BE64At(to[:], uint64(w)*8).Publish(from.Word(w))
		}
	}
	w := words{ring: g.own, at: at, mark: g.mark, overdue: overdue}
	if doorbell.Ring(g.own.At(at).Word(0)) != head {
		return 0, blocks, Late{Why: LateChanges}
	}
	if off, why := w.written(g.transport, int(head.DS())); why != NotLate {
		return 0, blocks, Late{Why: why, At: off}
	}
	for i := range blocks {
		for k := range uint(wqe.BlockSize / 8) {
			if g.client.At(at+i).Word(k) != g.own.At(at+i).Word(k) {
				return 0, blocks, Late{Why: LateChanges, At: uint32(i*wqe.BlockSize) + uint32(k)*8}
			}
		}
	}
	for i := range blocks {
		g.fill(at + i)
	}
	return blocks, blocks, Late{}
}
