package record

import (
	"cmp"
	"slices"
)

// sort sorts what has happened by time.
func (g *gatherer) sort() {
	slices.SortStableFunc(g.happenings, func(a, b happening) int { return cmp.Compare(a.time, b.time) })
}

// run writes all that has happened. A WQE is written when the first of its completions was copied, or
// earlier: before those that follow it in a queue.
func (w *writer) run(g *gatherer) error {
	for i := range g.happenings {
		h := &g.happenings[i]
		w.time = max(w.time, h.time)
		switch h.kind {
		case rawCQE:
			if !h.c.dropped && !h.c.written {
				w.until(h.c)
			}
		case rawGone:
			w.rest(h.object)
			w.gone(h.object)
		case rawModify:
			w.modify(h)
		default:
			w.made(h.object)
		}
		if w.err != nil {
			return w.err
		}
	}
	for _, q := range g.queues {
		w.work(q, len(q.works))
	}
	return w.err
}

// rest writes the WQEs that use an object that goes.
func (w *writer) rest(o *object) {
	switch o.kind {
	case rawQP:
		w.end(o.qp)
	case rawKey, rawContext:
		context := o
		if o.kind == rawKey {
			context = o.context
		}
		for _, x := range context.queues {
			w.posted(x.qp, w.time)
		}
	}
}

// end writes all that q has at the end of its life. Completions may have been copied at that moment, which is
// after the time of the call.
func (w *writer) end(q *queue) {
	w.work(q, len(q.works))
	for _, c := range q.receives {
		if !c.dropped && !c.written {
			w.until(c)
		}
	}
}

// posted writes the WQEs of q that were posted before a time.
func (w *writer) posted(q *queue, time uint64) {
	n := q.written
	for n < len(q.works) && q.works[n].time < time && !q.works[n].flushed {
		n++
	}
	w.work(q, n)
}

// work writes the works of q before n. It returns false if it is in the midst of one of them: the caller
// wants an order that there is not.
func (w *writer) work(q *queue, n int) bool {
	for q.written < n && w.err == nil {
		if !w.execute(q.works[q.written]) {
			return false
		}
	}
	return true
}

// execute writes x, whose queue has no earlier work that is not written.
func (w *writer) execute(x *work) bool {
	if x.busy {
		return false
	}
	x.busy = true
	for _, c := range []*completion{x.taken, x.done} {
		if c != nil {
			w.before(c)
		}
	}
	if x.out {
		return true
	}
	w.write(x)
	return true
}

// until writes c and all completions before it in its queue.
func (w *writer) until(c *completion) {
	w.before(c)
	switch {
	case c.written:
	case c.work != nil:
		w.work(c.work.queue, c.work.order+1)
	default:
		w.completion(c)
	}
}

// before writes the completions that precede c in its queue, as far as there is an order in which they do.
func (w *writer) before(c *completion) {
	between := false // the last one was that of the receive of the same message, which is written before c
	for q, i := c.cq, c.cq.next; i < len(q.list) && w.err == nil; {
		f := q.list[i]
		switch {
		case f.written:
			i++
			if !between {
				q.next = max(q.next, i)
			}
		case f == c:
			return
		case c.work != nil && f == c.work.taken:
			between = true
			i++
		case between:
			w.summary.Crossed++
			return
		case f.work == nil:
			w.completion(f)
		case !w.work(f.work.queue, f.work.order+1):
			w.summary.Crossed++
			return
		}
	}
}
