//go:build linux && (amd64 || arm64)

package object

import (
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
	return n + uint16(len(s.Back))
}

// Take takes the next entry and copies it to dst. The next entry is one that was put back
// or, if there is none, the head of the list. The head's link is read from the copy,
// because the client may change the entry once it is consumed.
func (s *SRQ) Take(dst []byte) (index uint16) {
	if n := len(s.Back); n > 0 {
		index, s.Back = s.Back[n-1], s.Back[:n-1]
		copy(dst, s.entry(index))
		return index
	}
	index = s.Head
	copy(dst, s.entry(index))
	s.Head = wqe.ParseSRQNext((*[wqe.SRQNextSize]byte)(dst)).Next & s.Mask
	s.Taken++
	return index
}

func (s *SRQ) entry(index uint16) []byte {
	return s.Ring[int(index)<<s.Stride:][:1<<s.Stride]
}

// PutBack puts back an entry whose transfer did not complete. Room for such entries is
// allocated only here, because most queues never need it.
func (s *SRQ) PutBack(index uint16) {
	if len(s.Back) <= int(s.Mask) {
		s.Back = append(s.Back, index)
	}
}
