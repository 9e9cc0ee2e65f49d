//go:build linux && (amd64 || arm64)

package announce

import (
	"math/bits"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
)

// NoRecordOffset is where in a UAR page clients ring that use no records (DOCA). It is below the registers
// of which package doorbell knows.
const NoRecordOffset = 0x600

// Places is the number of places in a UAR page at which clients ring: both halves of each register, and
// NoRecordOffset. They are nine cache lines, which stay in the cache of the device's core until a client
// writes them.
const Places = 2*doorbell.BFRegs + 1

// A Source is what announces work of one send queue.
type Source struct {
	page  []byte // the queue's UAR page
	rings [Places]*shm.BE64
	last  [Places]uint64 // what was there when it was looked at last

	client *shm.BE32 // the send word of the client's record; nil: it is not read
	index  uint16    // what it said when it was looked at last
	guard  *guard    // nil: none

	// A WQE that is announced and has not arrived: its block, the device clock at which it was found
	// first, which is 0 if there is none, whether it has been explained, and whether no store can be on
	// its way to it any more. They are for the caller of Admit, which sets them.
	LateAt, LateSince uint64
	LateExplained     bool
	LateOverdue       bool

	announced, admitted uint64 // blocks since RST, as announced and as the device may execute

	// Record has the blocks that are admitted. The device takes it for the send word of the queue's
	// record.
	Record *shm.BE32
}

// Offset returns the offset in a UAR page of its place i, 0 to 8.
func Offset(i int) uint64 {
	if i == Places-1 {
		return NoRecordOffset
	}
	return doorbell.BFOffset + uint64(i)*doorbell.BFHalf
}

// New returns the source of a queue with this UAR page. record is the send word of the client's record, or
// nil if only registers announce work.
func New(page []byte, record *shm.BE32) *Source {
	s := &Source{page: page[:doorbell.UARPageSize], client: record, Record: shm.BE32At(make([]byte, 8), 4)}
	for i := range s.rings {
		s.rings[i] = shm.BE64At(s.page, Offset(i))
	}
	return s
}

// Reset begins anew, with nothing announced. num is the number of the queue pair. A doorbell from before
// is taken out of its register, because the same one may come again. Doorbells of other queues
// stay there and count as seen: they may be of a queue that had the page before and is gone. The record
// counts as 0, which the client has to store before the queue leaves RST. With a guard, Mark comes before.
func (s *Source) Reset(num uint32) {
	for i, r := range s.rings {
		v := r.Observe()
		if v != 0 && doorbell.Ring(v).QPN() == num {
			b := s.page[Offset(i):][:doorbell.RingSize]
			shm.CompareAndSwap(b, bits.ReverseBytes64(v), 0) // as it is in memory
			v = 0
		}
		s.last[i] = v
	}
	s.announced, s.admitted, s.index, s.LateSince = 0, 0, 0, 0
	s.Record.Publish(0)
}

// A Stray is a doorbell that announces nothing.
type Stray struct {
	Kind   StrayKind
	Offset uint64 // in the UAR page, of a register
	Value  uint64 // of the register, or of the record
	Index  uint16 // producer index that it says
}

// A StrayKind says what is wrong with a doorbell.
type StrayKind uint8

// The kinds.
const (
	NoStray StrayKind = iota
	OfAnother
	RegisterAhead
	RecordAhead
)

// Look looks at the registers and the record. done is the number of blocks executed, ring the number of
// blocks of the ring. It returns the last stray doorbell that it has found.
//
// A new index counts if it is ahead of all before, and not more than a ring ahead of what is executed. An
// index that is behind is an older doorbell that is seen late. A register and the record count when they
// change: what they say stays there, and would seem ahead again when the 16-bit indices come round, also
// in a record to which this client writes nothing. Posters that copy the first
// bytes of their WQE into the register after they have stored the record (libmlx5, RDMaxcel) can find the
// mark of a guard there, if the WQE has been taken meanwhile; it says nothing, and to no queue of the page.
//
// Observe: doorbell register, send record.
func (s *Source) Look(num uint32, done, ring uint64) (stray Stray) {
	s.announced = max(s.announced, done)
	for i, r := range s.rings {
		v := r.Observe()
		if v == s.last[i] {
			continue
		}
		s.last[i] = v
		if isMark(v) {
			continue
		}
		b := doorbell.Ring(v)
		index := b.Index() + uint16(b.DS()+3)/4 // a WQE's own first bytes have its index, others the next one
		if b.QPN() != num {
			if v != 0 {
				stray = Stray{OfAnother, Offset(i), v, index}
			}
			continue
		}
		if !s.advance(index, done, ring) {
			stray = Stray{RegisterAhead, Offset(i), v, index}
		}
	}
	if s.client != nil {
		word := s.client.Observe()
		if index := uint16(word); index != s.index {
			s.index = index
			if !s.advance(index, done, ring) {
				stray = Stray{Kind: RecordAhead, Value: uint64(word), Index: index}
			}
		}
	}
	return stray
}

// advance takes a producer index into account, and returns false if it is too far ahead.
func (s *Source) advance(index uint16, done, ring uint64) bool {
	n := uint64(index - uint16(done))
	if n > ring {
		return n >= 1<<15
	}
	s.announced = max(s.announced, done+n)
	return true
}

// Unsized finds a register that has the first bytes of the WQE after all that is announced, with ds 0. It
// announces nothing, because with ds 0 a register says the next index. A repeated ring says that index too:
// it has no opcode, or there is no such WQE in the ring, which is the client's if the queue is not guarded.
// A NOP with ds 0 looks like the next index, and is not found.
func (s *Source) Unsized(num uint32, ring shm.Ring) (offset, value uint64, found bool) {
	if s.guard != nil {
		ring = s.guard.client
	}
	for i, v := range s.last {
		b := doorbell.Ring(v)
		if b.QPN() == num && b.DS() == 0 && b.Opcode() != 0 && b.Index() == uint16(s.announced) &&
			ring.At(s.announced).Word(0) == v {
			return Offset(i), v, true
		}
	}
	return 0, 0, false
}

// Admit publishes in Record what the device may execute. Of a guarded queue it admits WQEs that begin below
// the block end. It returns how many blocks it has copied, which takes much longer than Look. If a WQE is
// announced there and has not arrived, it returns why.
func (s *Source) Admit(num uint32, end uint64) (copied int, late Late) {
	if s.guard == nil {
		s.admitted = s.announced
	}
	for s.admitted < min(s.announced, end) {
		overdue := s.LateOverdue && s.LateAt == s.admitted && s.LateSince != 0
		n, seen, why := s.guard.take(s.admitted, s.announced-s.admitted, num, overdue)
		copied += int(seen)
		if n == 0 {
			late = why
			break
		}
		s.admitted += n
	}
	s.Record.Publish(uint32(uint16(s.admitted)))
	return copied, late
}

// Guarded reports whether s has a guard. It is false if s is nil: the record alone announces work.
func (s *Source) Guarded() bool { return s != nil && s.guard != nil }

// Announced returns how many blocks were announced since RST when Look was called last.
func (s *Source) Announced() uint64 { return s.announced }

// Admitted returns how many blocks have been admitted since RST.
func (s *Source) Admitted() uint64 { return s.admitted }
