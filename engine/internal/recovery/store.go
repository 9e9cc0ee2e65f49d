//go:build linux && (amd64 || arm64)

package recovery

import "github.com/nicless/nicless/internal/packetring"

// A Store has the memory for early packets of all queue pairs of a port, in pieces of 1 KiB. The zero value
// keeps none.
type Store struct {
	packets []earlyPacket
	bytes   []byte // piece bytes for each
	whole   []byte // the payload of a packet of several pieces that was taken out
	used    int    // number of pieces that have been in use at some time
	free    uint16 // index of the first that is free again, and 1
	taken   int    // number of pieces that are in use
	longs   int    // number of queue pairs that reach far; see State.extend

	accounts map[uint32]*Account // by user

	resting bool   // the system takes back the memory, so nothing is kept
	quiet   uint64 // since when nothing is kept; 0: it is not known
}

// An earlyPacket is a piece of a packet that has come early. All but next is of its first piece. It has no
// pointers, so that the garbage collector does not look at it.
type earlyPacket struct {
	path, psn uint32
	head      [packetring.MaxHead]byte
	n         uint8  // bytes of head
	size      uint16 // bytes of payload
	next      uint16 // index of the packet's next piece, or of the next one that is free, and 1
}

const (
	mostPayload = 4096 // the largest MTU of RoCE

	// piece is how many bytes of payload are kept together: the MTU of most networks.
	piece = 1024

	// mostEarly is how many pieces are kept for all queue pairs of a port: 32 MiB. The system
	// gives it when it is used for the first time.
	// A queue pair may keep a quarter of what is left, so that none takes all.
	mostEarly = 32 << 10

	// mostLong is how many queue pairs of a port reach far: their tables take at most 76 KiB each.
	mostLong = 128
)

// NewStore returns a store. It is made when its port is, not by the engine's thread. The system gives it
// pages when they are used for the first time.
func NewStore() Store {
	return Store{packets: make([]earlyPacket, mostEarly), bytes: make([]byte, mostEarly*piece),
		whole: make([]byte, mostPayload)}
}

// Taken returns how many pieces of memory are in use.
func (s *Store) Taken() int { return s.taken }

// Used returns the memory for payload that has been in use since it was given back to the system last.
func (s *Store) Used() []byte { return s.bytes[:s.used*piece] }

// pieces returns how many pieces a payload of n bytes takes.
func pieces(n int) int { return max((n+piece-1)/piece, 1) }

// Room returns how many packets of size bytes a queue pair that keeps n of them may keep beyond those.
func (s *Store) Room(n, size int) int {
	each := pieces(size)
	n *= each
	left := len(s.packets) - s.taken
	if left <= 0 || n > left/4 {
		return 0
	}
	return max((left-4*n)/5+1, each) / each // each makes what is left smaller
}

// room reports whether e may keep another packet, of size bytes, and charges for it. The others are taken to
// be as large.
func (s *Store) room(e *Early, size int) bool {
	left, each := len(s.packets)-s.taken, pieces(size)
	if s.resting || size > mostPayload || each > left || e.N*each > left/4 {
		return false
	}
	return each <= e.account.most(left) && e.account.take(each)
}

// put keeps a packet and returns its index. There is room for it.
func (s *Store) put(k *packetring.Packet, psn uint32) (first uint16) {
	last := -1
	for at := 0; at == 0 || at < len(k.Payload); at += piece {
		i := s.take()
		copy(s.bytes[int(i)*piece:][:piece], k.Payload[at:])
		if last < 0 {
			first = i
		} else {
			s.packets[last].next = i + 1
		}
		last = int(i)
	}
	c := &s.packets[first]
	s.quiet = 0
	c.path, c.n, c.head, c.psn, c.size = k.Path, uint8(k.N), k.Head, psn, uint16(len(k.Payload))
	return first
}

// take returns the index of a piece that is free.
func (s *Store) take() uint16 {
	s.taken++
	if s.free == 0 {
		s.used++
		return uint16(s.used - 1)
	}
	i := s.free - 1
	s.free = s.packets[i].next
	return i
}

// get takes the packet with an index out, into k. It returns how many pieces are free again.
func (s *Store) get(i uint16, k *packetring.Packet) int {
	c := &s.packets[i]
	k.Path, k.N, k.Head = c.path, int(c.n), c.head
	if n := int(c.size); n <= piece {
		k.Payload = s.bytes[int(i)*piece:][:n]
	} else {
		p := i
		for at := 0; at < n; at += piece {
			copy(s.whole[at:n], s.bytes[int(p)*piece:][:piece])
			p = s.packets[p].next - 1
		}
		k.Payload = s.whole[:n]
	}
	return s.drop(i)
}

// drop gives the memory of the packet with an index back. It returns how many pieces are free again.
func (s *Store) drop(i uint16) (n int) {
	n = pieces(int(s.packets[i].size))
	s.taken -= n
	for range n {
		c := &s.packets[i]
		following := c.next
		c.next, s.free = s.free, i+1
		i = following - 1
	}
	return n
}
