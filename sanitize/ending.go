package sanitize

import "fmt"

// An ending is what is known of a client that may be going. If a process exits, or is killed, the device
// destroys what it had: its queue pairs, its keys, its shared receive queues, its completion queues, in this
// order, one right after the other. A queue pair that goes with its process is no mistake. So reports about
// it wait here until it is clear that the program has destroyed it itself: it does something else, or
// destroys in another order, or takes the time that a request takes between any two objects.
type ending struct {
	pending []pending
	stage   stage
	last    uint64 // time of the last object that went
	gap     uint64 // the least time between two that went
	gaps    int
}

type pending struct {
	about  subject
	report Report
}

// A stage is what a device destroys when a client goes, in its order.
type stage uint8

const (
	queuesEnd stage = iota
	keysEnd
	srqsEnd
	cqsEnd
)

// requestsPerSecond is how many requests a program makes at most in a second: each is a message to the
// device's process and back. When a client goes, the device needs a fraction of that time for an object.
const requestsPerSecond = 250_000

// ends notes that an object of a client is gone.
func (s *Sanitizer) ends(c *client, at stage, time uint64) {
	x := &c.ending
	if len(x.pending) == 0 {
		c.ending = ending{stage: at, last: time}
		return
	}
	if at < x.stage {
		s.active(c)
		return
	}
	if gap := time - x.last; x.gaps == 0 || gap < x.gap {
		x.gap = gap
	}
	x.gaps++
	x.stage, x.last = at, time
}

// active notes that a client does something: it is not going.
func (s *Sanitizer) active(c *client) {
	if c == nil {
		return
	}
	for _, p := range c.ending.pending {
		s.report(p.about, p.report)
	}
	c.ending = ending{}
}

// completeEnding makes the reports that wait when a client has gone, or when no event follows.
func (s *Sanitizer) completeEnding(c *client, left bool) {
	x := &c.ending
	hz := s.options.Clock.Hz
	own := x.gaps > 0 && hz > 0 && x.gap > hz/requestsPerSecond
	for _, p := range x.pending {
		if left && !own {
			p.report.Severity = Note
		}
		s.report(p.about, p.report)
	}
	c.ending = ending{}
}

// destroyed reports that a queue pair was destroyed that had WQEs to execute.
func (s *Sanitizer) destroyed(q *queue, list []*work) {
	x := &q.client.ending
	if len(x.pending) >= mostReported {
		s.repeated++
		return
	}
	r := Report{
		Text: fmt.Sprintf("a queue pair was destroyed in RTS with %d WQEs in flight: nobody knows whether they were executed",
			len(list)),
		Hint: "Poll the completion of the last WQE first, or move the queue pair to ERR and poll until all are flushed.",
	}
	if len(list) == 1 {
		r.Text = "a queue pair was destroyed in RTS with a WQE in flight: nobody knows whether it was executed"
	}
	d := s.clientAccess(q.client, "destruction")
	d.QP, d.Ticks = q.number, s.ticks
	const shown = 4
	for _, w := range list[:min(len(list), shown)] {
		r.Accesses = append(r.Accesses, s.workAccess(w, "post"))
	}
	r.Accesses = append(r.Accesses, d)
	s.hold(q.client)
	x.pending = append(x.pending, pending{subject{code: DestroyedInFlight, a: q.number}, r})
}

// neverPolled reports that a completion queue is gone of which nobody has ever taken a completion. That some
// are left is usual: programs end when they know enough, and rdma_cm flushes queue pairs whose program has
// gone on. Right before, an event says how many were taken; without it nobody knows.
func (s *Sanitizer) neverPolled(c *cq) {
	if c.good == 0 || c.taken || c.loose || !c.known || c.since <= s.lostAt {
		return
	}
	a := s.clientAccess(c.client, "destruction")
	a.CQ, a.Ticks = c.number, s.ticks
	text := fmt.Sprintf("a completion queue had %d completions without an error, and none was ever taken", c.good)
	if c.good == 1 {
		text = "a completion queue had a completion without an error, and it was never taken"
	}
	s.report(subject{code: NeverPolled, a: c.number}, Report{Text: text, Accesses: []Access{a},
		Hint: "Without a completion that was polled, nothing is known of a WQE: memory stays the device's, and slots of the queue are never free.",
	})
}

// neverConsumed notes that a queue is gone whose receives no message has ever got.
func (s *Sanitizer) neverConsumed(x *receives, c *client, a Access) {
	if x.count == 0 || x.consumed > 0 || x.since <= s.lostAt {
		return
	}
	d := s.clientAccess(c, "destruction")
	d.QP, d.SRQ, d.Ticks = a.QP, a.SRQ, s.ticks
	s.report(subject{code: ReceivesNeverConsumed, a: a.QP, b: a.SRQ}, Report{Severity: Note,
		Text: fmt.Sprintf("a queue is gone that had %d receives, and no message has ever got one", x.count), Accesses: []Access{d},
		Hint: "WRITE and READ take no receive. A message takes one of the queue pair that it was sent to, or of the shared receive queue of that.",
	})
}
