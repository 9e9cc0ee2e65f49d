//go:build linux && (amd64 || arm64)

package recovery

import (
	"math/bits"

	"github.com/nicless/nicless/packet"
)

// A Sent is what a requester knows of the packets that it has sent and that are not acknowledged: which of
// them the peer has, and which are lost. A packet is lost if the peer does not have it, and has one that was
// sent later. The request of a READ stands for several PSNs; which answers to it have come is not known here.
//
// The word of the peer can only keep packets from being sent again. A peer that lies gets no packets, until
// the requester has heard nothing for the time of the attribute timeout and sends everything again.
type Sent struct {
	order  []uint32 // by PSN modulo its length: the number of the latest send of the packet
	have   []uint64 // a bit for each PSN: the peer has said that it has the packet
	copies []uint8  // by PSN: the number of the latest copy of the packet; 0: it was sent once
	reads  []uint64 // a bit for each PSN: an answer comes for it, to a READ or an atomic
	sends  uint32   // number of sends
	had    uint32   // number of packets that the peer is known to have got, or answers that have come
	newest uint32   // the latest send that the peer is known to have got
	last   uint32   // PSN of the packet that was sent last for the first time
	forced [2]uint32
}

// newSent returns a Sent for at most full packets that are not acknowledged.
func newSent(full uint32) Sent {
	n := max(64, 1<<bits.Len32(full))
	return Sent{order: make([]uint32, n), have: make([]uint64, n/64), copies: make([]uint8, n),
		reads: make([]uint64, n/64)}
}

// extend makes room for at most full packets. Those from una on, before most, are not acknowledged.
func (s *Sent) extend(full, una, most uint32) {
	old := *s
	grown := newSent(full)
	s.order, s.have, s.copies, s.reads = grown.order, grown.have, grown.copies, grown.reads
	for p := una; packet.DiffPSN(p, most) < 0; p = packet.AddPSN(p, 1) {
		s.order[s.slot(p)], s.copies[s.slot(p)] = old.order[old.slot(p)], old.copies[old.slot(p)]
		w, b := s.at(p)
		if old.has(p) {
			s.have[w] |= b
		}
		if old.answered(p) {
			s.reads[w] |= b
		}
	}
}

// begin forgets all packets; psn is the first PSN that will be sent.
func (s *Sent) begin(psn uint32) { s.last = psn }

func (s *Sent) at(psn uint32) (word uint32, bit uint64) {
	i := psn & uint32(len(s.order)-1)
	return i / 64, 1 << (i % 64)
}

// slot returns where a PSN is in order and copies.
func (s *Sent) slot(psn uint32) uint32 { return psn & uint32(len(s.order)-1) }

// has reports whether the peer has a packet.
func (s *Sent) has(psn uint32) bool {
	w, b := s.at(psn)
	return s.have[w]&b != 0
}

// answered reports whether answers come for the packet psn.
func (s *Sent) answered(psn uint32) bool {
	w, b := s.at(psn)
	return s.reads[w]&b != 0
}

// note notes that the packet psn is sent, which stands for n PSNs. first says that it is sent for the first
// time, reads that answers come for it.
func (s *Sent) note(psn, n uint32, first, reads bool) {
	s.sends++
	copies := uint8(0)
	if !first {
		copies = s.nextCopy(psn, n)
	}
	for i := range n {
		p := psn + i
		w, b := s.at(p)
		s.order[s.slot(p)] = s.sends
		s.have[w] &^= b
		s.reads[w] &^= b
		if reads {
			s.reads[w] |= b
		}
		s.copies[s.slot(p)] = copies
	}
	if first {
		s.last = psn
	}
}

// nextCopy returns the number of the next copy of a packet that stands for n PSNs, 1..127: none of them has
// had it before.
func (s *Sent) nextCopy(psn, n uint32) (most uint8) {
	for i := range n {
		most = max(most, s.copies[s.slot(psn+i)])
	}
	return most%127 + 1
}

// mark notes that the peer has the packet psn. If the packet was sent again, that does not say which copy has
// arrived, so it does not say which packets were sent before.
func (s *Sent) mark(psn uint32) {
	w, b := s.at(psn)
	if s.have[w]&b == 0 {
		s.have[w] |= b
		if s.reads[w]&b == 0 {
			s.had++
		}
	}
	s.arrived(psn, 0)
}

// arrived notes that a copy of the packet psn has arrived, although the peer may not have kept it.
func (s *Sent) arrived(psn uint32, copies uint8) {
	i := s.slot(psn)
	if n := s.order[i]; int32(n-s.newest) > 0 && s.copies[i] == copies {
		s.newest = n
	}
}

// lost reports whether a packet is lost.
func (s *Sent) lost(psn uint32) bool {
	return !s.has(psn) && int32(s.newest-s.order[s.slot(psn)]) > 0
}

// lose takes a packet for lost.
func (s *Sent) lose(psn uint32) {
	w, b := s.at(psn)
	s.have[w] &^= b
	s.order[s.slot(psn)] = s.newest - 1
}
