//go:build linux && (amd64 || arm64)

package inject

import (
	"time"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
)

// A QueuePair is what rules do to a queue pair.
type QueuePair struct {
	work    []counter // of WQEs, one for each Rules that can act
	decided uint64    // the WQE that Hit is for: the block where it begins, and 1; 0: none
	Link    *Link     // what rules do to its packets; nil: nothing

	// Of the WQE at the head of the queue.
	fault.Hit        // the rule that acts on it, if Acts
	Acts      bool   // a rule acts on it
	Began     bool   // the action has begun
	Until     uint64 // device clock until which the WQE waits
}

// A counter is a counter of events, and the rules that it is of.
type counter struct {
	rules *Rules
	*fault.Counter
}

// Decide decides, at first sight of the WQE that begins at a block, which rule acts on it. Later calls for
// the same WQE change nothing, so Hit, Began and Until last as long as the WQE. f.Since is set by Decide.
func (q *QueuePair) Decide(block, now uint64, f *fault.Facts) {
	if q.decided == block+1 {
		return
	}
	q.decided, q.Acts, q.Began, q.Until = block+1, false, false, 0
	for _, c := range q.work {
		f.Since = time.Duration(clock.Duration(now - min(now, c.rules.Since)))
		if hit, ok := c.Next(f); ok && !q.Acts {
			q.Hit, q.Acts = hit, true
		}
	}
}

// Decided reports whether it is decided already what happens to the WQE that begins at a block.
func (q *QueuePair) Decided(block uint64) bool { return q.decided == block+1 }

// Reset forgets the WQE at the head: the queue pair was reset, and begins at block 0.
func (q *QueuePair) Reset() { q.decided, q.Acts = 0, false }
