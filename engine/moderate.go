//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// A moderation holds the events of a completion queue back (completion moderation). An event that is
// due waits until count completions have come since the client armed the queue, or until it has
// waited for period. The device looks at events that wait where it looks at arm words, and
// does not sleep past their time. So a completion of a queue without moderation, or of one that is not
// armed, costs nothing more.
type moderation struct {
	count  uint64
	period uint64 // in cycles
	first  uint64 // value of cq.next from which completions count
	since  uint64 // device clock when the event became due; 0: no event waits
	at     int    // index in client.arms.held, plus 1; 0: no event waits
}

// Moderate holds events of a CQ back: count completions or period microseconds. If either is 0,
// events are sent at once.
func (c *caller) Moderate(cqn uint32, count, period uint16) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.e.Do(func() {
		q := c.cqs[cqn]
		if q == nil {
			err = notFound("CQ", cqn)
			return
		}
		waits := q.moderation != nil && q.moderation.since != 0
		switch {
		case count == 0 || period == 0:
			c.loop().unhold(q)
			q.moderation = nil
			if waits && q.armed {
				c.loop().fire(q)
			}
		case q.moderation == nil:
			q.moderation = &moderation{first: q.next}
			c.arms.held = slices.Grow(c.arms.held, len(c.cqs)-len(c.arms.held)) // because a step adds to this list
			fallthrough
		default:
			q.moderation.count, q.moderation.period = uint64(count), clock.Cycles(time.Duration(period)*time.Microsecond)
		}
	})
	return err
}

// announce sends the event of an armed queue that has become due, or lets it wait.
func (sh *completer) announce(q *cq) {
	if p := q.moderation; p != nil && p.since == 0 {
		p.since = max(sh.now(), 1)
		sh.hold(q)
	}
	sh.fireDue(q)
}

// hold puts q on the list of CQs with an event that waits.
func (sh *completer) hold(q *cq) {
	a := &q.client.arms
	a.held = append(a.held, q)
	q.moderation.at = len(a.held)
	q.client.shard.arm.held++
}

// unhold notes that no event of q waits, and takes q off the list.
func (sh *completer) unhold(q *cq) {
	if q.moderation == nil || q.moderation.since == 0 {
		return
	}
	a, at := &q.client.arms, q.moderation.at-1
	last := len(a.held) - 1
	a.held[at] = a.held[last]
	a.held[at].moderation.at = at + 1
	a.held[last], a.held = nil, a.held[:last]
	q.moderation.at, q.moderation.since = 0, 0
	q.client.shard.arm.held--
}

// fireDue sends the event of q that waits, if it has waited long enough, and reports whether it
// sent one. If q has no moderation, it sends the event at once.
func (sh *completer) fireDue(q *cq) bool {
	if p := q.moderation; p != nil && (p.since == 0 || q.next-p.first < p.count && sh.now()-p.since < p.period) {
		return false
	}
	sh.fire(q)
	return true
}

// observeHeld sends the event of q that waits, if there is one and it has waited long enough. It
// returns 1 if it sent one, otherwise 0.
func (sh *completer) observeHeld(q *cq) int {
	if q.moderation == nil || !q.armed || q.moderation.since == 0 || !sh.fireDue(q) {
		return 0
	}
	return 1
}

// heldUntil returns the device clock at which the event of q that waits has to be sent.
func (q *cq) heldUntil() uint64 {
	p := q.moderation
	if p == nil || !q.armed || p.since == 0 || p.period > ^uint64(0)-p.since {
		return ^uint64(0)
	}
	return p.since + p.period
}
