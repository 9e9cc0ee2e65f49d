package hostpath

import (
	"sync/atomic"

	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
)

// A sequence hands out the blocks of a ring to any number of posters and tells
// how far they have all been written. It is the rule that accelerators follow
// (reserve, ready, ring), with one difference: no poster waits for another.
//
//	reserve  moves next: the caller owns the blocks that it passed over
//	commit   says at a reservation's first block where it ends; in any order
//	ring     the poster that takes ringing follows those ends from rung on, up
//	         to the first block that is not committed, and tells the device
//
// A poster that does not get ringing need not wait: it committed before it tried,
// and the holder of ringing looks once more after releasing it. So a WQE that is
// committed without a gap before it is always rung, once.
//
// TestInterleavings walks through every order of these steps.
type sequence struct {
	size uint64
	ends []atomic.Uint64 // by slot: count of the end of the reservation that begins there, if above the slot's count
	_    [64]byte

	seen atomic.Uint64 // freed, as last observed by any poster
	next atomic.Uint64 // count of the first block not reserved; top bit: see mark
	_    [64]byte

	rung    atomic.Uint64 // count of the first block not rung; written by the holder of ringing
	ringing atomic.Bool
	_       [64]byte
}

// mark, in next, says that the last reservation was made with mark. The poster of
// the next one learns of it.
const mark = 1 << 63

func (s *sequence) init(size uint64) {
	s.size, s.ends = size, make([]atomic.Uint64, size)
}

// reserve reserves n blocks, at most the whole ring. It returns the count of the
// first and the mark of the reservation before. While fewer are free it reserves
// nothing and returns false.
func (s *sequence) reserve(n, leave uint64, freed *shm.Word64) (first, left uint64, ok bool) {
	for {
		// seen before next: read the other way round, a caller held up between
		// the loads could find seen beyond next.
		seen := s.seen.Load()
		was := s.next.Load()
		first := was &^ mark
		if first+n-seen > s.size {
			now := freed.Observe()
			if now <= first && first+n-now > s.size {
				return 0, 0, false
			}
			s.seen.CompareAndSwap(seen, now) // a failure means that another poster has stored it
			continue
		}
		if s.next.CompareAndSwap(was, first+n|leave) {
			return first, was & mark, true
		}
	}
}

// commit says that the blocks from first up to end, one reservation, are written.
func (s *sequence) commit(first, end uint64) { s.ends[ring.Slot(first, s.size)].Store(end) }

// due reports whether something is committed that has not been rung.
func (s *sequence) due() bool {
	at := s.rung.Load()
	return s.ends[ring.Slot(at, s.size)].Load() > at
}

// begin takes ringing. It returns false if another poster has it.
func (s *sequence) begin() bool { return s.ringing.CompareAndSwap(false, true) }

// written returns the count up to which all is committed. Only the holder of
// ringing calls it.
func (s *sequence) written() uint64 {
	at := s.rung.Load()
	for {
		end := s.ends[ring.Slot(at, s.size)].Load()
		if end <= at {
			return at
		}
		at = end
	}
}

// end releases ringing. Everything before count has been rung.
func (s *sequence) end(count uint64) {
	s.rung.Store(count)
	s.ringing.Store(false)
}

// reset sets all counts to 0. No other call may run at the same time.
func (s *sequence) reset() {
	s.seen.Store(0)
	s.next.Store(0)
	s.rung.Store(0)
	for i := range s.ends {
		s.ends[i].Store(0)
	}
}
