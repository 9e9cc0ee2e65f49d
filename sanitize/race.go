package sanitize

import "fmt"

// check looks for accesses that have no order with one that begins, and reports those that exclude each
// other. It also notes that the program uses memory which it has posted for messages.
func (s *Sanitizer) check(r *record, b *budget) {
	var found []*record
	all := s.overlapping(r.owner, r.span, b, func(x *record) {
		switch {
		case x == r:
		case x.mode == awaits:
			if r.mode.local() {
				x.ours = s.now
			}
		case exclude(x.mode, r.mode) && !s.ordered(x, r):
			found = append(found, x)
		}
	})
	if !all {
		s.dropped++
		r.owner.foreign++ // nothing is said about receives that are not marked
	}
	for _, x := range found {
		s.race(x, r)
	}
}

// exclude reports whether two accesses to the same bytes need an order. Two messages that come into receives
// of one program do not: the program itself has posted the same memory twice, as benchmarks do.
func exclude(a, b mode) bool {
	switch {
	case !a.stores() && !b.stores():
		return false
	case a == b:
		return a != atomics && a != lands
	}
	return true
}

// ordered reports whether the access of x has ended before that of r began, as far as the program of r can
// know that, or whether the device executes one after the other.
func (s *Sanitizer) ordered(x, r *record) bool {
	a, b := x.work, r.work
	switch {
	case a == b:
		return true
	case x.queue == r.queue && (x.mode != results || r.mode != reads):
		return true
	case x.queue == r.queue && r.queue.fence > a.number:
		return true // it waits for the READ
	}
	return b.knows.at(x.queue.slot) >= a.number || (a.moved && !s.options.Strict)
}

// race reports that two accesses have no order.
func (s *Sanitizer) race(x, r *record) {
	both := span{max(x.from, r.from), min(x.end, r.end)}
	low, high := x.queue.number, r.queue.number
	if low > high {
		low, high = high, low
	}
	about, severity := subject{Race, low, high, both}, Error
	if !certain(x, r) {
		severity = Note
	}
	if !s.wanted(about, severity) {
		return
	}
	s.report(about, Report{
		Severity: severity,
		Text: fmt.Sprintf("%s of the memory of %s are accessed twice, at least once to write, with no order between the two",
			countBytes(both.end-both.from), s.nameOf(x.owner)),
		Accesses: []Access{s.access1(r, ""), s.access1(x, "earlier ")},
		Hint:     raceHint(x, r),
	})
}

// certain reports whether no correct program has such a race. A READ of memory around a word that atomics
// change may get the word at any moment. A program that sends from memory which it has also posted for
// messages does not mind what is in the messages, as the pingpong programs of rdma-core.
func certain(x, r *record) bool {
	for _, p := range [...][2]*record{{x, r}, {r, x}} {
		a, b := p[0], p[1]
		if a.mode == atomics && b.mode == fetches {
			return false
		}
		if a.mode == lands && b.mode.local() {
			return false
		}
	}
	return true
}

func raceHint(x, r *record) string {
	switch {
	case x.queue == r.queue:
		return "A WQE that sends what a READ brings needs a fence (IBV_SEND_FENCE), or the completion of the READ first."
	case x.mode == atomics || r.mode == atomics:
		return "Atomics are atomic among each other only: not with WRITE and READ."
	case x.queue.client.process == r.queue.client.process:
		return "Queue pairs have no order between them: poll the completion of the first one before the second one is posted."
	}
	return "The second program has to learn that the first access has ended: by a message that was posted " +
		"after its completion was polled, or by an atomic."
}

// access1 describes an access of a WQE.
func (s *Sanitizer) access1(r *record, prefix string) Access {
	a := s.workAccess(r.work, prefix+r.mode.String())
	a.Addr, a.Length, a.Key = r.from, r.end-r.from, r.key
	return a
}

// workAccess describes a WQE.
func (s *Sanitizer) workAccess(w *work, does string) Access {
	a := s.clientAccess(w.queue.client, does)
	index := w.index
	a.QP, a.Index, a.Opcode = w.queue.number, &index, w.ctrl.Opcode.String()
	a.Ticks, a.Stack = w.time, w.stack
	return a
}

// clientAccess describes something that a client has done.
func (s *Sanitizer) clientAccess(c *client, does string) Access {
	return Access{Does: does, Program: c.name.Program(), PID: c.name.PID, Client: c.number}
}

// nameOf names a process.
func (s *Sanitizer) nameOf(p *process) string {
	a := s.clientAccess(p.first, "")
	return a.who()
}
