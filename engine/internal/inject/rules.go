//go:build linux && (amd64 || arm64)

package inject

import (
	"slices"
	"time"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
)

// Rules are rules that the device obeys.
type Rules struct {
	*fault.Set
	Since uint64 // device clock when they were set

	// MayFault reports whether they may harm clients of a user, who are peers of the queue pairs on which
	// they act. It is called on the thread of a shard.
	MayFault func(uid uint32) bool
}

// Age returns for how long the device has obeyed the rules at a time of its clock.
func (r *Rules) Age(now uint64) time.Duration { return clock.Duration(now - min(now, r.Since)) }

// Add adds rules to what happens to a queue pair, of which q is nil if no rule had to do with it. It returns
// the new q, which stays nil if none of the rules has to do with it either.
func Add(q *QueuePair, r *Rules, from *fault.Source) *QueuePair {
	work, bell := r.Counter(fault.OnWQE, from), r.Counter(fault.OnDoorbell, from)
	order := r.Counter(fault.OnQueue, from)
	if work == nil && bell == nil && order == nil {
		return addLink(q, r, from)
	}
	if q == nil {
		q = new(QueuePair)
	}
	if work != nil {
		q.work = append(q.work, counter{r, work})
	}
	if bell != nil {
		if q.Bell == nil {
			q.Bell = new(Bell)
		}
		q.Bell.counters = append(q.Bell.counters, counter{r, bell})
	}
	if order != nil {
		x := &Order{Hit: order.First(), Rules: r}
		x.Window.Begin(x.Rule.Order, x.Draw)
		q.orders = append(q.orders, x)
		q.Order = q.orders[0]
	}
	return addLink(q, r, from)
}

// removeOrder takes an order away. The bytes that are on the way in it are moved again, in their order.
func (q *QueuePair) removeOrder(r *Rules) {
	q.orders = slices.DeleteFunc(q.orders, func(o *Order) bool {
		if o.Rules == r {
			o.Window.Clear()
		}
		return o.Rules == r
	})
	q.Order = nil
	if len(q.orders) > 0 {
		q.Order = q.orders[0]
	}
}

// Remove takes rules away. It returns the new q, nil if no rules are left. If one of them acts on the WQE at
// the head, it is decided anew what happens to that WQE. Otherwise that stays decided: the WQE would be
// counted twice, and what another rule does to it would begin again.
func Remove(q *QueuePair, r *Rules) *QueuePair {
	if q == nil {
		return nil
	}
	q.removeOrder(r)
	q.removeLink(r)
	q.work = without(q.work, r)
	if q.Acts && q.From == r {
		q.stop()
	}
	if b := q.Bell; b != nil {
		n := len(b.counters)
		b.counters = without(b.counters, r)
		if len(b.counters) == 0 {
			q.Bell = nil
		} else if len(b.counters) < n {
			b.reset()
		}
	}
	return q.Rest()
}

// stop ends the action of rules that end. A request that the responder has executed gets its answer now, and
// is not executed again.
func (q *QueuePair) stop() {
	if q.Applied {
		q.Acts, q.Over = false, true
		return
	}
	q.decided, q.action = 0, action{}
}

// Rest returns q, or nil if no rules are left and no answer is still to come.
func (q *QueuePair) Rest() *QueuePair {
	if len(q.work) == 0 && q.Bell == nil && q.Order == nil && q.Link == nil && !q.Applied {
		return nil
	}
	return q
}

// Answered says that the answer which was lost has come, or will never come.
func (q *QueuePair) Answered() { q.Applied = false }

// without takes the counters of rules out of a list.
func without(list []counter, r *Rules) []counter {
	return slices.DeleteFunc(list, func(c counter) bool { return c.rules == r })
}
