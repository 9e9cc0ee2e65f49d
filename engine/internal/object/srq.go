//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// An SRQ is the device's side of a shared receive queue: a linked list in client memory.
// Each entry names the next one. The doorbell record says how many entries are ready.
type SRQ struct {
	Num     uint32
	Client  *Client
	PD      *PD
	Ring    []byte
	Mask    uint16 // entries - 1
	Stride  uint   // log2 of the bytes of one entry
	Record  *shm.BE32
	Regions [2]*Region // those that hold the ring and the record

	Head  uint16   // entry to take next
	Taken uint64   // entries taken off the list so far
	Back  []uint16 // entries put back because their transfers did not complete
	Limit uint32   // an event is due when fewer entries than this are ready; 0: no event
	Users int      // number of QPs that use the queue

	// These fields are of an XSRQ only.
	XRCD *XRCD
	CQ   *CQ // completion queue of its receives
	UIDX uint32
	Gone bool // destroyed; pointers to it may remain
}

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
