//go:build linux && (amd64 || arm64)

package recovery

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// A Store gives its memory back to the system when nothing was kept for a while. The call of the system takes
// about a millisecond, so it is made on another thread than the engine's, and nothing is kept meanwhile.

// quietTime is after how much time without packets the memory is given back. Packets that are lost every few
// seconds do not cost new pages each time.
const quietTime = 10 * time.Second

// Rest is called every few seconds, at the time now. If nothing was kept for quietTime, it returns the memory
// that has been used since the last time. The caller gives it back, and then calls Rested.
func (s *Store) Rest(now uint64) (unused []byte) {
	switch {
	case s.taken > 0 || s.resting:
		return nil
	case s.used == 0:
		s.refund() // what Rested could not, because the ledger was in use
		return nil
	case s.quiet == 0:
		s.quiet = now
		return nil
	case now-s.quiet < clock.Cycles(quietTime):
		return nil
	}
	s.resting = true
	return s.Used()
}

// Rested is called when the system has the memory that Rest has returned. No user is charged any more.
func (s *Store) Rested() {
	s.resting, s.quiet, s.used, s.free = false, 0, 0, 0
	s.refund()
}

// refund refunds all users what they have paid, as far as that can be done without waiting. Nothing is kept.
func (s *Store) refund() {
	for _, a := range s.accounts {
		for a.paid > 0 && a.try(-PortionCost) {
			a.paid -= portion
		}
	}
}
