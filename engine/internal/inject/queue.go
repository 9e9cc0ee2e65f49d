//go:build linux && (amd64 || arm64)

package inject

import (
	"time"

	"github.com/nicless/nicless/engine/internal/order"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
)

// A QueuePair is what rules do to a queue pair.
type QueuePair struct {
	work    []counter // of WQEs, one for each Rules that can act
	decided uint64    // the WQE that Hit is for: the block where it begins, and 1; 0: none

	// Of the WQE at the head of the queue.
	fault.Hit        // the rule that acts on it, if Acts
	Acts      bool   // a rule acts on it
	Began     bool   // the action has begun
	Until     uint64 // device clock until which the WQE waits

	Order *Order // an order of bytes that is in force; nil: bytes are written in their order
}

// An Order is what a rule says of the order in which bytes become visible, and what is on the way.
type Order struct {
	fault.Hit
	Rules   *Rules
	Window  order.Window
	Pausing bool   // the queue pauses, so that others see the bytes that are there so far
	Waited  uint64 // the WQE for whose followers the queue has waited: the block where it begins, and 1
	Refused bool   // it has been explained that the rule does nothing to this queue pair
}

// Begun reports whether the rule is in force at a time of the device clock.
func (o *Order) Begun(now uint64) bool {
	since := time.Duration(clock.Duration(now - min(now, o.Rules.Since)))
	return since >= time.Duration(o.Rule.Match.After)
}

// Ordering reports whether WQEs are being moved in another order.
func (q *QueuePair) Ordering() bool { return q.Order != nil && q.Order.Window.Active() }

// Acting reports whether there are rules that act on single WQEs.
func (q *QueuePair) Acting() bool { return len(q.work) > 0 }

// Pauses reports whether a pause of the queue pair is to go on until its end.
func (q *QueuePair) Pauses() bool { return q.Acts || q.Order != nil && q.Order.Pausing }

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
func (q *QueuePair) Reset() {
	q.decided, q.Acts = 0, false
	if q.Order != nil {
		q.Order.Pausing, q.Order.Waited = false, 0
	}
}
