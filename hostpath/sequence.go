package hostpath

import (
	"sync/atomic"

	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
)

// A sequence hands out the blocks of a ring to any number of posters and knows up to which
// block all of them have been written. Accelerators follow the same protocol (reserve,
// ready, ring), with one difference: here no poster waits for another.
//
//	reserve  moves next: the caller owns the blocks between the old and the new value
//	commit   stores the count of a reservation's end at the first block of the
//	         reservation; reservations are committed in any order
//	ring     the poster that takes the lock (ringing) follows the stored ends, from the count in
//	         rung up to the first block that is not committed, and notifies the device
//
// A poster that does not get the lock need not wait. It has committed its work before it tried,
// and the holder of the lock checks for committed work once more after releasing the lock. So a
// WQE is rung exactly once, when the WQE and all WQEs before it are committed.
//
// TestInterleavings goes through every order of these steps.
type sequence struct {
	size uint64 // blocks of the ring

	// ends has, for each slot, the count of the end of the reservation that begins in the slot. The
	// count is left from an earlier lap if it is not greater than the count of the slot's block.
	ends []atomic.Uint64

	_ [64]byte

	seen atomic.Uint64 // value of freed when a poster last observed it
	next atomic.Uint64 // count of the first block that is not reserved; top bit: see mark
	_    [64]byte

	rung    atomic.Uint64 // count of the first block that is not rung; written by the holder of ringing
	ringing atomic.Bool   // a lock: a poster is ringing
	_       [64]byte
}

// mark is a bit of next. The poster of a reservation can set it as a message to the poster
// of the following reservation.
const mark = 1 << 63

func (s *sequence) init(size uint64) {
	s.size, s.ends = size, make([]atomic.Uint64, size)
}

// reserve reserves n blocks, at most the whole ring. It returns the count of the first block,
// and in previous the mark of the reservation before this one. own is the mark of this
// reservation: the constant mark or 0. ok is false if fewer than n blocks are free; nothing is
// then reserved.
func (s *sequence) reserve(n, own uint64, freed *shm.Word64) (first, previous uint64, ok bool) {
	for {
		// seen is loaded before next. In the other order, a caller that is delayed between
		// the loads could find seen beyond next.
		seen := s.seen.Load()
		was := s.next.Load()
		first := was &^ mark
		if first+n-seen > s.size {
			now := freed.Observe()
			if now <= first && first+n-now > s.size {
				return 0, 0, false
			}
			s.seen.CompareAndSwap(seen, now) // a failure means that another poster has updated seen
			continue
		}
		if s.next.CompareAndSwap(was, first+n|own) {
			return first, was & mark, true
		}
	}
}

// commit says that the blocks of one reservation are written. They are the blocks from count
// first up to, but not including, count end.
func (s *sequence) commit(first, end uint64) { s.ends[ring.Slot(first, s.size)].Store(end) }

// due reports whether there are committed blocks that have not been rung.
func (s *sequence) due() bool {
	at := s.rung.Load()
	return s.ends[ring.Slot(at, s.size)].Load() > at
}

// begin takes the lock (ringing). It returns false if another poster has the lock.
func (s *sequence) begin() bool { return s.ringing.CompareAndSwap(false, true) }

// written returns the count of the first block that is not committed. Only the holder of
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

// end releases the lock (ringing). All blocks before count have been rung.
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
