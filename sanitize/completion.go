package sanitize

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
)

// completed notes completions that the device writes.
func (s *Sanitizer) completed(e *trace.Event) {
	if len(e.Data) < cqe.Size {
		return
	}
	wc := cqe.ParseWC((*[cqe.Size]byte)(e.Data))
	q := s.queues[wc.QPN]
	if q == nil {
		return
	}
	n := max(e.Count, 1)
	c := s.cqs[e.Queue]
	if c != nil {
		c.known = false
		if !c.taken {
			c.unread[wc.QPN] += uint64(n)
		}
		if wc.Status == cqe.StatusSuccess {
			c.good += uint64(n)
		}
	}
	if wc.Requester() {
		s.sent(q, c, wc.Counter, n, e.Value)
	} else {
		s.arrivals(s.senderTo(q, wc.SrcQP), c, n, e.Value)
	}
}

// sent notes n completions of WQEs, those from an index on. Completions that end no WQE bring nothing that
// the one before has not brought, so the loop is as long as there are WQEs that end.
func (s *Sanitizer) sent(q *queue, c *cq, index, n uint16, value uint64) {
	for i := 0; i < int(n); {
		s.steps++
		s.endUpTo(q, index+uint16(i))
		s.complete(c, completion{value: value + uint64(i), slot: q.slot, number: q.done, brings: q.brings})
		if len(q.works) == 0 {
			return
		}
		i += int(q.works[0].index - (index + uint16(i)))
	}
}

// arrivals notes n completions of receives, which have got the messages of a queue pair. It is nil if that is
// not known: then they tell nothing.
func (s *Sanitizer) arrivals(from *queue, c *cq, n uint16, value uint64) {
	for i := range uint64(n) {
		if from == nil {
			return
		}
		s.steps++
		x := completion{value: value + i, slot: from.slot}
		w := from.delivered()
		if w == nil {
			// It is not known which WQE it was, nor of those that follow: it may have been the last one.
			x.number, x.brings = from.last, from.client.process.knows
			s.complete(c, x)
			return
		}
		s.move(w)
		x.number, x.brings = w.number, w.knows
		s.complete(c, x)
	}
}

// delivered returns the first WQE whose message has got a receive that has no completion yet, which has it
// now. It returns nil if there is none.
func (q *queue) delivered() *work {
	for len(q.taken) > 0 {
		w := q.taken[0]
		q.taken = q.taken[1:]
		if w.number > q.done {
			return w
		}
	}
	return nil
}

// senderTo returns the queue pair whose messages come to a queue pair, as far as it is known.
func (s *Sanitizer) senderTo(q *queue, source uint32) *queue {
	o := s.table.Queue(q.number)
	if o == nil || o.Info.Port != 0 {
		return nil
	}
	if o.Info.Peer != 0 {
		source = o.Info.Peer
	}
	return s.queues[source]
}

// complete adds a completion to its queue, unless those before it bring as much.
func (s *Sanitizer) complete(c *cq, x completion) {
	if c == nil {
		return
	}
	news, before := s.brought(&x), c.all
	c.all = s.clocks.joined(c.all, news)
	p := c.client.process
	if c.loose {
		p.knows = s.clocks.joined(p.knows, news)
		return
	}
	if c.all == before {
		return
	}
	if len(c.entries) >= mostCompletions { // rather an order too many than a race that is none
		s.dropped++
		p.knows = s.clocks.joined(p.knows, s.brought(&c.entries[0]))
		c.entries = c.entries[1:]
	}
	c.entries = append(c.entries, x)
	s.hold(c)
}

// brought returns what a program knows that has taken a completion.
func (s *Sanitizer) brought(x *completion) *clock {
	if x.number == 0 {
		return x.brings
	}
	return s.clocks.raised(x.brings, x.slot, x.number)
}

// polled notes that a program has taken completions.
func (s *Sanitizer) polled(e *trace.Event) {
	c := s.cqs[e.Queue]
	if c == nil {
		return
	}
	c.known = true
	if e.Value > c.removed {
		c.taken, c.unread = true, nil
	}
	p := c.client.process
	for len(c.entries) > 0 && c.entries[0].value < e.Value {
		p.knows = s.clocks.joined(p.knows, s.brought(&c.entries[0]))
		c.entries = c.entries[1:]
	}
}

// remove notes that a queue pair is gone whose completions are in a completion queue. Its program gets none
// of them any more: libmlx5 removes them, and Go's API passes over them when it polls. Right before, an event
// has said how many were taken.
func (c *cq) remove(q *queue) {
	if c.known && !c.taken {
		c.removed += c.unread[q.number]
		delete(c.unread, q.number)
	}
}
