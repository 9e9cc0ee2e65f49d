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
	if c := r.Counter(fault.OnWQE, from); c != nil {
		if q == nil {
			q = new(QueuePair)
		}
		q.work = append(q.work, counter{r, c})
	}
	return addLink(q, r, from)
}

// Remove takes rules away. It returns the new q, nil if no rules are left. A rule that acts on the WQE at the
// head may be one of them, so it is decided anew what happens to that WQE.
func Remove(q *QueuePair, r *Rules) *QueuePair {
	if q == nil {
		return nil
	}
	q.removeLink(r)
	// If none of them acts on WQEs, what is decided stays so: the WQE at the head would be counted twice.
	if slices.ContainsFunc(q.work, func(c counter) bool { return c.rules == r }) {
		q.work = without(q.work, r)
		q.Reset()
	}
	if len(q.work) == 0 && q.Link == nil {
		return nil
	}
	return q
}

// without takes the counters of rules out of a list.
func without(list []counter, r *Rules) []counter {
	return slices.DeleteFunc(list, func(c counter) bool { return c.rules == r })
}
