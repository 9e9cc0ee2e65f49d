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
	slots   []uint16 // by PSN modulo Reach: the index in the store, and 1; 0: none
	bits    [Reach / 64]uint64
	highest uint32 // the highest PSN that has been kept, or that a READ kept stands for; valid if N > 0
	silent  int    // number of packets kept since the last report
}

// An EarlyPacket is a packet that has come early. Payload of its Packet is in the bytes of the store.
type EarlyPacket struct {
	packetring.Packet
	psn  uint32
	at   uint16 // its own index
	next uint16 // of a free one: the index of the next, and 1
}

const (
	// Reach is how far before the expected packet a packet can be kept. A window of 1 MiB, the largest of
	// RoCE, has so many packets of 1024 bytes. If packets are shorter, those farther away are sent again.
	Reach = 1024

	// leap is how many packets in a row may be lost so that the next one is kept. A stranger who tries PSNs
	// (package scan) hits a packet that is kept instead of only the expected one, so this is small: scans
	// take a quarter of the time. After a longer gap packets are dropped, as without this package.
	leap = 3

	mostPayload = 4096 // the largest MTU of RoCE
)

// A Store has the memory for early packets of all queue pairs of a port. The zero value keeps none.
type Store struct {
	packets []EarlyPacket
	bytes   []byte // mostPayload bytes for each
	used    int    // number of those that have been in use at some time
	free    uint16 // index of the first that is free again, and 1
	taken   int    // number of packets that are kept
}

// NewStore returns a store. It is made when its port is, not by the engine's thread. The system gives it
// pages when they are used for the first time.
func NewStore() Store {
	return Store{packets: make([]EarlyPacket, mostEarly), bytes: make([]byte, mostEarly*mostPayload)}
}

// mostEarly is how many packets are kept for all queue pairs of a port: with 4 KiB each, 16 MiB, which is 16
// windows of 1 MiB. A queue pair may keep a quarter of what is left, so that none takes all.
const mostEarly = 4096

// bit reports whether the packet psn is kept.
func (e *Early) bit(psn uint32) bool {
	i := psn & (Reach - 1)
	return e.bits[i/64]>>(i%64)&1 != 0
}

// Has reports whether the packet psn is kept. expected is the PSN that is expected.
func (e *Early) Has(expected, psn uint32) bool {
	return e.N > 0 && packet.DiffPSN(psn, expected) < Reach && e.bit(psn)
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

// Keep keeps a packet with the PSN psn, which stands for n PSNs, if there is room. expected is the PSN that
// is expected, and before psn. missing is how many packets are missing between the highest that has come and
// psn; below 0, psn is not the highest. kept says that the packet is kept now. gap says that packets before
// it are missing that were not missing before.
func (e *Early) Keep(s *Store, k *packetring.Packet, expected, psn, n uint32,
	missing int32) (kept, gap bool) {
	d := packet.DiffPSN(psn, expected)
	highest := e.Highest(expected)
	gap = missing > 0
	if d >= Reach || missing > leap || len(k.Payload) > mostPayload || !s.room(e.N) {
		return false, gap
	}
	if e.slots == nil {
		e.slots = make([]uint16, Reach)
	}
	i := s.get()
	c, room := &s.packets[i], s.bytes[int(i)*mostPayload:][:mostPayload]
	c.Path, c.N, c.Head = k.Path, k.N, k.Head
	c.Payload = room[:copy(room, k.Payload)]
	c.psn = psn
	e.slots[psn&(Reach-1)] = i + 1
	e.N++
	n = min(n, uint32(Reach-d))
	for i := range n {
		b := (psn + i) & (Reach - 1)
		e.bits[b/64] |= 1 << (b % 64)
	}
	if end := packet.AddPSN(psn, n-1); packet.DiffPSN(end, highest) > 0 {
		e.highest = end
	} else {
		e.highest = highest
	}
	return true, gap
}

// Speak reports whether the responder reports now that a packet has come early: if a gap has come, if the
// packet asks for an acknowledgement, and after each eighth packet.
func (e *Early) Speak(gap, ask bool) bool {
	e.silent++
	if gap || ask || e.silent >= 8 {
		e.silent = 0
		return true
	}
	return false
}

// Next takes out the packet with the PSN psn, which is expected now; nil if it was not kept. All packets
// before it are dropped; from was the PSN that was expected before. The caller gives the packet back to s.
func (e *Early) Next(s *Store, from, psn uint32) *EarlyPacket {
	if e.N == 0 {
		return nil
	}
	passed := min(uint32(max(packet.DiffPSN(psn, from), 0)), Reach)
	for i := range passed {
		if c := e.take(s, from+i); c != nil {
			s.Put(c)
		}
	}
	return e.take(s, psn)
}

// take takes out the packet psn, and clears its bit.
func (e *Early) take(s *Store, psn uint32) *EarlyPacket {
	i := psn & (Reach - 1)
	e.bits[i/64] &^= 1 << (i % 64)
	if e.slots[i] == 0 {
		return nil
	}
	c := &s.packets[e.slots[i]-1]
	if c.psn != psn&(1<<24-1) {
		return nil
	}
	e.slots[i] = 0
	e.N--
	if e.N == 0 {
		e.bits, e.silent = [Reach / 64]uint64{}, 0 // READs leave bits
	}
	return c
}

// Clear drops all packets.
func (e *Early) Clear(s *Store) {
	for i, c := range e.slots {
		if c != 0 {
			s.Put(&s.packets[c-1])
			e.slots[i] = 0
		}
	}
	e.N, e.bits, e.silent = 0, [Reach / 64]uint64{}, 0
}

// Taken returns how many packets are kept.
func (s *Store) Taken() int { return s.taken }

// Room returns how many packets a queue pair that keeps n may keep beyond those.
func (s *Store) Room(n int) int {
	left := len(s.packets) - s.taken
	if left <= 0 || n > left/4 {
		return 0
	}
	return (left-4*n)/5 + 1 // each makes what is left smaller
}

// room reports whether a queue pair that keeps n packets may keep another.
func (s *Store) room(n int) bool {
	left := len(s.packets) - s.taken
	return left > 0 && n <= left/4
}

// get returns the index of memory for a packet. There is room for one.
func (s *Store) get() uint16 {
	s.taken++
	if s.free == 0 {
		s.used++
		i := s.used - 1
		s.packets[i].at = uint16(i)
		return uint16(i)
	}
	i := s.free - 1
	s.free = s.packets[i].next
	return i
}

// Put gives memory back.
func (s *Store) Put(c *EarlyPacket) {
	s.taken--
	c.Payload, c.next = nil, s.free
	s.free = c.at + 1
}
