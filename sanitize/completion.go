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
	c := s.cqs[e.Queue]
	for i := range max(e.Count, 1) {
		x := completion{value: e.Value + uint64(i)}
		if wc.Requester() {
			s.endUpTo(q, wc.Counter+i)
			x.slot, x.number, x.brings = q.slot, q.done, q.brings
		} else {
			s.arrived(q, wc.SrcQP, &x)
		}
		if c != nil {
			s.complete(c, x, wc.Status == cqe.StatusSuccess)
		}
	}
}

// arrived notes that the message of a WQE has arrived at a queue pair, and what the completion of its receive
// tells.
func (s *Sanitizer) arrived(q *queue, source uint32, x *completion) {
	from := s.senderTo(q, source)
	if from == nil {
		return
	}
	for _, w := range from.works {
		if w.took && !w.delivered {
			s.claim(w)
			s.move(w)
			w.delivered = true
			x.slot, x.number, x.brings = from.slot, w.number, w.knows
			return
		}
	}
	// It is not known which WQE it was: it may have been the last one.
	x.slot, x.number, x.brings = from.slot, from.last, from.client.process.knows
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

// complete adds a completion to its queue.
func (s *Sanitizer) complete(c *cq, x completion, good bool) {
	c.known = false
	if good {
		c.good++
	}
	news := x.brought()
	c.all = joined(c.all, news)
	p := c.client.process
	if c.loose {
		p.knows = joined(p.knows, news)
		return
	}
	if len(c.entries) >= mostCompletions { // rather an order too many than a race that is none
		s.dropped++
		p.knows = joined(p.knows, c.entries[0].brought())
		c.entries = c.entries[1:]
	}
	c.entries = append(c.entries, x)
}

// brought returns what a program knows that has taken a completion.
func (x *completion) brought() *clock {
	if x.number == 0 {
		return x.brings
	}
	return x.brings.raised(x.slot, x.number)
}

// polled notes that a program has taken completions.
func (s *Sanitizer) polled(e *trace.Event) {
	c := s.cqs[e.Queue]
	if c == nil {
		return
	}
	c.taken, c.known = c.taken || e.Value > 0, true
	p := c.client.process
	for len(c.entries) > 0 && c.entries[0].value < e.Value {
		p.knows = joined(p.knows, c.entries[0].brought())
		c.entries = c.entries[1:]
	}
}
