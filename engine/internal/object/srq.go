//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Ready returns how many entries are posted and not taken. A record that announces more
// entries than the queue has is the client's mistake, and counts as announcing none.
//
// Observe: SRQ record. Published by hostpath.SRQ.Ring.
func (s *SRQ) Ready() uint16 {
	n := uint16(s.Record.Observe()) - uint16(s.Taken)
	if n > s.Mask+1 {
		n = 0
	}
	return n + uint16(len(s.Returned))
}

// Take takes the next entry of the queue, copies it to dst and returns its index. The next entry is one that
// was returned or, if there is none, the head of the list. The link to the entry after the head is read from
// the copy, because the client may change the entry once it is consumed. A cyclic queue has no links.
func (s *SRQ) Take(dst []byte) (index uint16) {
	if n := len(s.Returned); n > 0 {
		index, s.Returned = s.Returned[n-1], s.Returned[:n-1]
		copy(dst, s.entry(index))
		return index
	}
	index = s.Head
	copy(dst, s.entry(index))
	next := index + 1
	if !s.Cyclic {
		next = wqe.ParseSRQNext((*[wqe.SRQNextSize]byte)(dst)).Next
	}
	s.Head = next & s.Mask
	s.Taken++
	return index
}

func (s *SRQ) entry(index uint16) []byte {
	return s.Ring[int(index)<<s.Stride:][:1<<s.Stride]
}

// Return returns a taken entry to the queue, because its transfer did not complete. Memory for such entries
// is allocated only here, because most queues never need it.
func (s *SRQ) Return(index uint16) {
	if len(s.Returned) <= int(s.Mask) {
		s.Returned = append(s.Returned, index)
	}
}

// ObserveLimit sends the limit event of s if fewer entries are ready than its limit. The limit is then 0, so
// that the event is sent once.
func (sh *Shard) ObserveLimit(s *SRQ) {
	if s.Limit > 0 && !s.Gone && uint32(s.Ready()) < s.Limit {
		s.Limit = 0
		s.Client.Event(control.EventSRQLimit, s.Num)
	}
}
