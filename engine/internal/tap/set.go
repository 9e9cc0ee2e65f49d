//go:build linux && (amd64 || arm64)

package tap

import (
	"math/bits"

	"github.com/nicless/nicless/trace"
)

// Most is how many watches a device can have. Each is a bit of a mask.
const Most = 32

// A Set has the rings of one shard, by the numbers of their watches.
type Set struct {
	rings [Most]*Ring
	Held  uint64 // the time of all events, if the device clock is held; 0: it runs
}

// Add adds the ring of a watch.
func (s *Set) Add(watch int, r *Ring) { s.rings[watch] = r }

// Remove ends the writing of a watch's ring.
func (s *Set) Remove(watch int) { s.rings[watch] = nil }

// Record writes an event into the rings of all watches of a mask. Data beyond trace.MaxData bytes are cut.
func (s *Set) Record(mask uint32, e *trace.Event) {
	if s.Held != 0 && mask != 0 {
		e.Time = s.Held
	}
	for ; mask != 0; mask &= mask - 1 {
		if r := s.rings[bits.TrailingZeros32(mask)%Most]; r != nil {
			r.record(e)
		}
	}
}
