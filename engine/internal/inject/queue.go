//go:build linux && (amd64 || arm64)

package inject

import (
	"time"

	"github.com/nicless/nicless/engine/internal/order"
	"github.com/nicless/nicless/fault"
)

// A QueuePair is what rules do to a queue pair.
type QueuePair struct {
	work    []counter // of WQEs, one for each Rules that can act
	Bell    *Bell     // of doorbells; nil: no rule can act on them
	decided uint64    // the WQE that Hit is for: the block where it begins, and 1; 0: none
	Link    *Link     // what rules do to its packets; nil: nothing

	orders []*Order // one for each Rules that has one
	Order  *Order   // the first of them, which acts; nil: bytes are written in their order

	action
}

// An action is what happens to the WQE at the head of the queue.
type action struct {
	fault.Hit        // the rule that acts on it, if Acts
	From      *Rules // the rules that it is one of
	Acts      bool   // a rule acts on it
	Began     bool   // the action has begun
	Over      bool   // the action is over, and the WQE goes on as without the rule
	Applied   bool   // the responder has executed the request, and the answer is lost
	Tries     int    // how often the request was sent without an answer that counts
	Until     uint64 // device clock until which the WQE waits
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

// Windows counts the windows of a device that have several WQEs.
type Windows = order.Room

// Begun reports whether the rule is in force at a time of the device clock.
func (o *Order) Begun(now uint64) bool {
	return o.Rules.Age(now) >= time.Duration(o.Rule.Match.After)
}

// Ordering reports whether WQEs are being moved in another order.
func (q *QueuePair) Ordering() bool { return q.Order != nil && q.Order.Window.Active() }

// Acting reports whether there are rules that act on single WQEs.
func (q *QueuePair) Acting() bool { return len(q.work) > 0 }

// Pauses reports whether a pause of the queue pair is to go on until its end.
func (q *QueuePair) Pauses() bool { return q.Acts || q.Order != nil && q.Order.Pausing }

// Never is the Until of a WQE that waits for ever.
const Never = ^uint64(0)

// LosesAnswer reports whether the answer to the WQE at the head is still to be lost.
func (q *QueuePair) LosesAnswer() bool { return q.Acts && !q.Over && q.Rule.LoseAnswer != 0 }

// Block returns the block at which the WQE begins that was decided last.
func (q *QueuePair) Block() uint64 { return q.decided - 1 }

// FlippedBit returns which byte of a payload of n bytes is to have a wrong bit, and which bit, as a mask. It
// returns the same whenever it is called for the same WQE.
func (q *QueuePair) FlippedBit(n uint64) (at uint64, mask byte) {
	at, bit := q.Draw>>3%n, uint8(q.Draw&7)
	if b := q.Rule.Flip.Byte; b != nil {
		at = min(uint64(*b), n-1)
	}
	if b := q.Rule.Flip.Bit; b != nil {
		bit = *b
	}
	return at, 1 << bit
}

// Deregisters reports whether a key of the WQE at the head is still to be deregistered.
func (q *QueuePair) Deregisters() bool { return q.Acts && !q.Over && q.Rule.Deregister != "" }

// MissedAnswer counts that no answer to the WQE at the head has come in time.
func (q *QueuePair) MissedAnswer() {
	if !q.LosesAnswer() {
		return
	}
	q.Tries++
	q.Over = q.Rule.LoseAnswer != fault.All && q.Tries >= int(q.Rule.LoseAnswer)
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
	q.decided, q.action = block+1, action{}
	for _, c := range q.work {
		f.Since = c.rules.Age(now)
		if hit, ok := c.Next(f, q.Acts); ok {
			q.Hit, q.From, q.Acts = hit, c.rules, true
		}
	}
}

// Decided reports whether it is decided already what happens to the WQE that begins at a block.
func (q *QueuePair) Decided(block uint64) bool { return q.decided == block+1 }

// Reset forgets the WQE at the head: the queue pair was reset, and begins at block 0.
func (q *QueuePair) Reset() {
	q.decided, q.action = 0, action{}
	if q.Bell != nil {
		q.Bell.reset()
	}
	if q.Order != nil {
		q.Order.Pausing, q.Order.Waited = false, 0
	}
}
