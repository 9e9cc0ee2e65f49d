package sanitize

import (
	"maps"
	"slices"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
)

// lives notes what there is on the device, and what is gone.
func (s *Sanitizer) lives(e *trace.Event) {
	switch e.Kind {
	case trace.KindClient:
		s.clientOf(e.Queue)
	case trace.KindClientGone:
		s.clientGone(e)
	case trace.KindQueue:
		s.queueIs(e)
	case trace.KindState:
		s.stateIs(e)
	case trace.KindQueueGone:
		s.queueGone(e)
	case trace.KindKey:
		s.keyIs(e)
	case trace.KindCQ:
		s.cqIs(e)
	case trace.KindSRQ:
		s.srqIs(e)
	case trace.KindLost:
		s.lost(e)
	}
}

// clientOf returns a client. One that no event has described is its own process.
func (s *Sanitizer) clientOf(number uint32) *client {
	known := s.table.Client(number)
	c := s.clients[number]
	if c == nil {
		c = &client{number: number, name: objects.Client{Number: number}, queues: map[uint32]*queue{},
			cqs: map[uint32]*cq{}, srqs: map[uint32]*srq{}}
		s.clients[number] = c
	} else if c.process != nil && (known == nil || c.name.PID == known.PID) {
		if known != nil {
			c.name = *known // it may have told its name since
		}
		return c
	}
	id := processID{client: number}
	if known != nil {
		c.name = *known
		if known.PID != 0 {
			id = processID{pid: known.PID}
		}
	}
	if c.process != nil {
		return c // it has memory already: it stays what it is
	}
	p := s.processes[id]
	if p == nil {
		p = &process{id: id, first: c, memory: tree{seed: s.seed}, posted: map[span]*record{}}
		s.processes[id] = p
	}
	p.clients++
	c.process = p
	return c
}

func (s *Sanitizer) clientGone(e *trace.Event) {
	c := s.clients[e.Queue]
	if c == nil {
		return
	}
	for _, q := range c.queues {
		s.steps++
		s.removeQueue(q)
	}
	for _, n := range slices.Sorted(maps.Keys(c.cqs)) {
		s.steps++
		q := c.cqs[n]
		s.neverPolled(q)
		s.removeCQ(q)
	}
	for _, q := range c.srqs {
		s.steps++
		s.removeSRQ(q)
	}
	delete(s.clients, e.Queue)
	c.process.clients--
	if c.process.clients == 0 {
		delete(s.processes, c.process.id)
	}
}

func (s *Sanitizer) queueIs(e *trace.Event) {
	if s.table.Queue(e.Queue) == nil {
		return
	}
	c := s.clientOf(uint32(e.Value))
	q := s.queues[e.Queue]
	if q == nil {
		q = &queue{number: e.Queue, client: c, records: map[recordKey]*record{},
			receives: receives{since: s.now}}
		q.slot, q.last = s.slots.take()
		s.queues[e.Queue], c.queues[e.Queue] = q, q
	}
	q.state = trace.State(e.Index)
	if setup, ok := trace.ParseQueueSetup(e.Data); ok {
		q.signed = setup.Flags&trace.Signed != 0
	}
}

// stateIs notes that a queue pair has changed its state. In RST it forgets its WQEs, in ERR and SQE they are
// flushed.
func (s *Sanitizer) stateIs(e *trace.Event) {
	q := s.queues[e.Queue]
	if q == nil {
		return
	}
	from, to := trace.State(e.Count>>8), trace.State(e.Count&0xff)
	q.state, q.dropped = to, nil
	switch to {
	case trace.RST:
		q.hasEnded = false
		if from == trace.RTS || from == trace.SQD {
			q.dropped, q.droppedN = s.inFlight(q), e.Number
			s.hold(q)
		}
		s.abandon(q)
		s.unpostAll(&q.receives)
	case trace.ERR:
		s.abandon(q)
		s.unpostAll(&q.receives)
	case trace.SQE:
		s.abandon(q)
	}
}

// inFlight returns the WQEs of a queue pair whose bytes were not moved. Those to a peer that is gone never
// are, so they are left out.
func (s *Sanitizer) inFlight(q *queue) (list []*work) {
	o := s.table.Queue(q.number)
	if o == nil || (o.Info.Port == 0 && o.Info.Peer != 0 && s.queues[o.Info.Peer] == nil) {
		return nil
	}
	for _, w := range q.works {
		if !w.moved {
			list = append(list, w)
		}
	}
	return list
}

// queueGone notes that a queue pair was destroyed. The device resets it first: the event before says so.
func (s *Sanitizer) queueGone(e *trace.Event) {
	q := s.queues[e.Queue]
	if q == nil {
		return
	}
	list := q.dropped
	if e.Number != q.droppedN+1 {
		list = nil // the program has reset it before
	}
	if q.state == trace.RTS || q.state == trace.SQD {
		list = s.inFlight(q)
	}
	if len(list) > 0 {
		s.destroyed(q, list, e.Value == trace.GoneWithClient)
	}
	s.neverConsumed(&q.receives, q.client, Access{QP: q.number})
	if o := s.table.Queue(q.number); o != nil {
		for _, number := range slices.Compact([]uint32{o.Info.SendCQ, o.Info.RecvCQ}) {
			if c := s.cqs[number]; c != nil {
				c.remove(q)
			}
		}
	}
	s.removeQueue(q)
}

// removeQueue drops all that is known of a queue pair.
func (s *Sanitizer) removeQueue(q *queue) {
	s.abandon(q)
	for _, r := range q.records {
		s.drop(r)
	}
	s.unpostAll(&q.receives)
	s.slots.give(q.slot, q.last)
	delete(s.queues, q.number)
	delete(q.client.queues, q.number)
	delete(s.held, q)
}

func (s *Sanitizer) removeCQ(c *cq) {
	delete(s.cqs, c.number)
	delete(c.client.cqs, c.number)
	delete(s.held, c)
}

func (s *Sanitizer) removeSRQ(q *srq) {
	s.unpostAll(&q.receives)
	delete(s.srqs, q.number)
	delete(q.client.srqs, q.number)
	delete(s.held, q)
}

func (s *Sanitizer) keyIs(e *trace.Event) {
	s.keys.event(e)
	info, err := trace.ParseKeyInfo(e.Data)
	if err != nil {
		return
	}
	s.clientOf(info.Client)
}

func (s *Sanitizer) cqIs(e *trace.Event) {
	setup, err := trace.ParseCQSetup(e.Data)
	if err != nil {
		return
	}
	c := s.cqs[e.Queue]
	if e.Index == trace.KeyGone {
		if c != nil {
			s.neverPolled(c)
			s.removeCQ(c)
		}
		return
	}
	if c == nil && len(s.cqs) < mostQueues {
		c = &cq{number: e.Queue, client: s.clientOf(uint32(e.Value)), since: s.now,
			unread: map[uint32]uint64{}}
		s.cqs[e.Queue], c.client.cqs[e.Queue] = c, c
	}
	const collapsed, ignoresOverrun = 1, 2
	if c != nil {
		c.loose = setup.Flags&(collapsed|ignoresOverrun) != 0
	}
}

func (s *Sanitizer) srqIs(e *trace.Event) {
	q := s.srqs[e.Queue]
	if e.Index == trace.KeyGone {
		if q != nil {
			s.neverConsumed(&q.receives, q.client, Access{SRQ: e.Queue})
			s.removeSRQ(q)
		}
		return
	}
	if q == nil && len(s.srqs) < mostQueues {
		q = &srq{number: e.Queue, client: s.clientOf(uint32(e.Value)), receives: receives{since: s.now}}
		s.srqs[e.Queue], q.client.srqs[e.Queue] = q, q
	}
}
