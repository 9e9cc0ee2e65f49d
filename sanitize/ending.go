package sanitize

import "fmt"

// destroyed reports that a queue pair is gone that had WQEs to execute. One that goes with its program is no
// mistake: programs end when they know enough, and some are killed.
func (s *Sanitizer) destroyed(q *queue, list []*work, withClient bool) {
	about, r := subject{code: DestroyedInFlight, a: q.number}, Report{}
	if withClient {
		r.Severity = Note
	}
	if !s.wanted(about, r.Severity) {
		return
	}
	these, they := "a WQE", "it was"
	if len(list) > 1 {
		these, they = fmt.Sprintf("%d WQEs", len(list)), "they were"
	}
	if withClient {
		r.Text = fmt.Sprintf("a program has ended with %s in flight: nobody knows whether %s executed", these, they)
		r.Hint = "If it did not crash, let it poll the completion of its last WQE first."
	} else {
		r.Text = fmt.Sprintf("a queue pair was destroyed in RTS with %s in flight: nobody knows whether %s executed",
			these, they)
		r.Hint = "Poll the completion of the last WQE first, or move the queue pair to ERR and poll until all are flushed."
	}
	d := s.clientAccess(q.client, "destruction")
	d.QP, d.Ticks = q.number, s.ticks
	const shown = 4
	for _, w := range list[:min(len(list), shown)] {
		r.Accesses = append(r.Accesses, s.workAccess(w, "post"))
	}
	r.Accesses = append(r.Accesses, d)
	s.report(about, r)
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
