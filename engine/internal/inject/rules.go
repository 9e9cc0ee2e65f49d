//go:build linux && (amd64 || arm64)

package inject

import (
	"slices"

	"github.com/nicless/nicless/fault"
)

// Rules are rules that the device obeys.
type Rules struct {
	*fault.Set
	Since uint64 // device clock when they were set
}

// Add adds rules to what happens to a queue pair, of which q is nil if no rule had to do with it. It returns
// the new q, which stays nil if none of the rules has to do with it either.
func Add(q *QueuePair, r *Rules, from *fault.Source) *QueuePair {
	c := r.Counter(fault.OnWQE, from)
	o := r.Counter(fault.OnQueue, from)
	if c == nil && o == nil {
		return q
	}
	if q == nil {
		q = new(QueuePair)
	}
	if c != nil {
		q.work = append(q.work, counter{r, c})
	}
	if o != nil {
		x := &ByteOrder{Hit: o.First(), Rules: r}
		x.Window.Begin(x.Rule.Order, x.Draw)
		q.orders = append(q.orders, x)
		q.Order = q.orders[0]
	}
	return q
}

// removeOrder takes an order away. The bytes that are on the way in it are moved again, in their order.
func (q *QueuePair) removeOrder(r *Rules) {
	q.orders = slices.DeleteFunc(q.orders, func(o *ByteOrder) bool { return o.Rules == r })
	q.Order = nil
	if len(q.orders) > 0 {
		q.Order = q.orders[0]
	}
}

// Remove takes rules away. It returns the new q, nil if no rules are left. A rule that acts on the WQE at the
// head may be one of them, so it is decided anew what happens to that WQE.
func Remove(q *QueuePair, r *Rules) *QueuePair {
	if q == nil {
		return nil
	}
	q.removeOrder(r)
	if len(q.work) == 0 && q.Order == nil {
		return nil
	}
	if !slices.ContainsFunc(q.work, func(c counter) bool { return c.rules == r }) {
		return q // what is decided stays so: the WQE at the head would be counted twice
	}
	q.work = slices.DeleteFunc(q.work, func(c counter) bool { return c.rules == r })
	q.Reset()
	if len(q.work) == 0 && q.Order == nil {
		return nil
	}
	return q
}
