package sanitize

import (
	"fmt"

	"github.com/nicless/nicless/trace"
)

// A holder has something in flight, which it drops when events are lost: among them may be some that say how
// it ended. Others have nothing, so a loss takes no longer than the events before it.
type holder interface{ dropAll(s *Sanitizer) }

func (s *Sanitizer) hold(h holder) { s.held[h] = struct{}{} }

// lost notes that events are missing.
func (s *Sanitizer) lost(e *trace.Event) {
	s.dropInFlight()
	s.report(subject{code: EventsLost, memory: span{s.now, s.now}}, Report{Severity: Note,
		Text: fmt.Sprintf("%d events are lost: all that was in flight is forgotten, and mistakes there are not found",
			e.Value)})
}

func (q *queue) dropAll(s *Sanitizer) {
	s.abandon(q)
	for _, r := range q.records {
		s.drop(r)
	}
	q.records = map[recordKey]*record{}
	s.unpostAll(&q.receives)
	q.dropped = nil
}

func (q *srq) dropAll(s *Sanitizer) { s.unpostAll(&q.receives) }

// dropAll counts all completions as taken: rather an order too many than a race that is none.
func (c *cq) dropAll(s *Sanitizer) {
	p := c.client.process
	p.knows = s.clocks.joined(p.knows, c.all)
	c.entries, c.known = nil, false
}

// dropInFlight drops all that is in flight, and all that has an order.
func (s *Sanitizer) dropInFlight() {
	for h := range s.held {
		s.steps++
		h.dropAll(s)
	}
	s.held = map[holder]struct{}{} // clear would leave it as large as it ever was
	s.lostAt = s.now
	s.unclaimed = nil
}

// mostNodes is how many nodes of clocks there are at most, but for those of one event: they take 256 MiB.
const mostNodes = 1 << 20

// boundClocks drops all that is in flight if its clocks take too much memory. Then nothing is left that needs
// an order to what follows, and all clocks begin anew. The nodes that are still in use are counted when half
// as many were made as there may be, so that counting takes no longer than making them.
func (s *Sanitizer) boundClocks() {
	if s.clocks.made < s.mostNodes/2 {
		return
	}
	s.clocks.made = 0
	if s.nodes(s.mostNodes/2) < s.mostNodes/2 {
		return
	}
	s.dropped += uint64(s.recordCount + s.workCount)
	s.dropInFlight()
	for _, p := range s.processes {
		p.knows, p.seen = nil, nil
	}
	for _, q := range s.queues {
		q.extra, q.brings = nil, nil
	}
	for _, c := range s.cqs {
		c.all = nil
	}
	s.words = newWords()
}

// nodes counts the nodes of all clocks, but not more than most.
func (s *Sanitizer) nodes(most int) int {
	x := counter{map[*clock]struct{}{}, most}
	for _, p := range s.processes {
		x.count(p.knows)
		x.count(p.seen)
	}
	for _, q := range s.queues {
		x.count(q.extra)
		x.count(q.brings)
		for _, w := range q.works {
			x.count(w.knows)
		}
	}
	for _, c := range s.cqs {
		x.count(c.all)
		for i := range c.entries {
			x.count(c.entries[i].brings)
		}
	}
	x.count(s.words.rest)
	for _, c := range s.words.clocks {
		x.count(c)
	}
	return len(x.seen)
}
