//go:build linux && (amd64 || arm64)

package recovery

import (
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
)

// An Early has the packets of one queue pair that have come before the expected one: an earlier packet was
// lost. They are copies, so nobody can change them. They are executed in order, when the expected packet has
// come. Until then they have no effect. The zero value is empty.
type Early struct {
	N       int      // number of packets
	slots   []uint16 // by PSN modulo its length: the index in the store, and 1; 0: none
	bits    []uint64 // a bit for each slot
	highest uint32   // the highest PSN that has been kept, or that a READ kept stands for; valid if N > 0
	silent  int      // number of packets kept since the last report
	account *Account // of the queue pair's user; nil: nobody is charged
}

const (
	// Reach is how far before the expected packet a packet can be kept. A window of 1 MiB, the largest of
	// RoCE on short paths, has so many packets of 1024 bytes. If packets are shorter, those farther away are
	// sent again.
	Reach = 1024

	// leap is how many packets in a row may be lost so that the next one is kept. A stranger who tries PSNs
	// (package scan) hits a packet that is kept instead of only the expected one, so this is small: scans
	// take a quarter of the time. After a longer gap packets are dropped, as without this package.
	leap = 3
)

// bit reports whether the packet psn is kept.
func (e *Early) bit(psn uint32) bool {
	i := e.at(psn)
	return e.bits[i/64]>>(i%64)&1 != 0
}

// at returns the slot of a PSN.
func (e *Early) at(psn uint32) uint32 { return psn & uint32(len(e.slots)-1) }

// reaches returns how far before the expected packet a packet can be kept now.
func (e *Early) reaches() int32 { return int32(len(e.slots)) }

// Has reports whether the packet psn is kept. expected is the PSN that is expected.
func (e *Early) Has(expected, psn uint32) bool {
	return e.N > 0 && packet.DiffPSN(psn, expected) < e.reaches() && e.bit(psn)
}

// Highest returns the highest PSN that has come: the last before expected if no packets are kept.
func (e *Early) Highest(expected uint32) uint32 {
	if e.N > 0 {
		return e.highest
	}
	return packet.AddPSN(expected, 1<<24-1)
}

// Missing returns how many packets are missing between the highest that has come and psn. expected is the PSN
// that is expected.
func (e *Early) Missing(expected, psn uint32) int32 {
	return packet.DiffPSN(psn, e.Highest(expected)) - 1
}

// extend makes e reach so far, a power of two and not less than now. expected is the PSN that is expected.
func (e *Early) extend(reach int, expected uint32, s *Store) {
	old := *e
	e.slots, e.bits = make([]uint16, reach), make([]uint64, reach/64)
	if old.N == 0 {
		return
	}
	for i, c := range old.slots {
		if c != 0 {
			e.slots[e.at(s.packets[c-1].psn)] = old.slots[i]
		}
	}
	for i := range uint32(old.reaches()) {
		if p := expected + i; old.bit(p) {
			e.set(p)
		}
	}
}

// set sets the bit of a PSN.
func (e *Early) set(psn uint32) {
	i := e.at(psn)
	e.bits[i/64] |= 1 << (i % 64)
}

// Keep keeps a packet with the PSN psn, which stands for n PSNs, if there is room. expected is the PSN that
// is expected, and before psn. missing is how many packets are missing between the highest that has come and
// psn; below 0, psn is not the highest. kept says that the packet is kept now. gap says that packets before
// it are missing that were not missing before.
func (e *Early) Keep(s *Store, k *packetring.Packet, expected, psn, n uint32,
	missing int32) (kept, gap bool) {
	if e.slots == nil {
		e.extend(Reach, expected, s)
	}
	d := packet.DiffPSN(psn, expected)
	highest := e.Highest(expected)
	gap = missing > 0
	if far := d >= e.reaches() || missing > leap; far || !s.room(e, len(k.Payload)) {
		return false, gap
	}
	e.slots[e.at(psn)] = s.put(k, psn) + 1
	e.N++
	n = min(n, uint32(e.reaches()-d))
	for i := range n {
		e.set(psn + i)
	}
	if end := packet.AddPSN(psn, n-1); packet.DiffPSN(end, highest) > 0 {
		e.highest = end
	} else {
		e.highest = highest
	}
	return true, gap
}

// Speak reports whether the responder reports now that a packet has come early: if a gap has come, if the
// packet asks for an acknowledgement, and after each eighth packet. If many are kept, after one in 64 of
// those, because a report costs each end a look at all of them.
func (e *Early) Speak(gap, ask bool) bool {
	e.silent++
	often := e.N < speakAlways
	if now := (gap || ask) && often; now || e.silent >= max(8, e.N/64) {
		e.silent = 0
		return true
	}
	return false
}

// speakAlways is below how many packets kept a gap is reported at once: all of a short path.
const speakAlways = Reach

// Next takes out the packet with the PSN psn, which is expected now, into k. It returns false if it was not
// kept. All packets before it are dropped; from was the PSN that was expected before. The bytes of k stay
// until another packet is kept or taken out.
func (e *Early) Next(s *Store, from, psn uint32, k *packetring.Packet) bool {
	if e.N == 0 {
		return false
	}
	passed := min(uint32(max(packet.DiffPSN(psn, from), 0)), uint32(len(e.slots)))
	for i := range passed {
		if c := e.take(s, from+i); c != 0 {
			e.account.give(s.drop(c - 1))
		}
	}
	c := e.take(s, psn)
	if c != 0 {
		e.account.give(s.get(c-1, k))
	}
	return c != 0
}

// take takes out the packet psn, and clears its bit. It returns its index in the store, and 1; 0: it was not
// kept.
func (e *Early) take(s *Store, psn uint32) uint16 {
	i := e.at(psn)
	e.bits[i/64] &^= 1 << (i % 64)
	c := e.slots[i]
	if c == 0 || s.packets[c-1].psn != psn&(1<<24-1) {
		return 0
	}
	e.slots[i] = 0
	e.N--
	if e.N == 0 {
		clear(e.bits) // READs leave bits
		e.silent = 0
	}
	return c
}

// Clear drops all packets.
func (e *Early) Clear(s *Store) {
	for i, c := range e.slots {
		if c != 0 {
			e.account.give(s.drop(c - 1))
			e.slots[i] = 0
		}
	}
	clear(e.bits)
	e.N, e.silent = 0, 0
}

// pieces returns how many pieces of s the packets take.
func (e *Early) pieces(s *Store) (n int) {
	for _, c := range e.slots {
		if c != 0 {
			n += pieces(int(s.packets[c-1].size))
		}
	}
	return n
}

// Room returns how many more packets of size bytes may be kept.
func (e *Early) Room(s *Store, size int) int {
	return min(s.Room(e.N, size), max(e.account.room(len(s.packets)-s.taken), 0)/pieces(size))
}
