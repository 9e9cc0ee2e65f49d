//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/state"
)

// A picture is what the last snapshots say, with rates. Tables whose kind was not asked for keep their rows.
type picture struct {
	taken   time.Time
	device  state.Device
	threads []threadRow
	clients []clientRow
	queues  []queueRow
	cqs     []cqRow

	total   rates          // of all clients
	past    state.Counts   // of all clients, those that are gone included
	waiting int            // queue pairs whose next WQE has to wait
	memory  pastCounts     // the counts before, of which the rates are made
	clocks  map[int]uint64 // device clock of each thread, in ns
}

type threadRow struct {
	state.Thread
	busy, waited float64 // shares of the time, from 0 to 1
}

type clientRow struct {
	state.Client
	rates
	name string // clean
}

type queueRow struct {
	state.Queue
	rates
	program string // clean
	thread  int
	code    string // of the last explanation about it, clean
}

type cqRow struct {
	state.CQ
	rate    float64 // completions a second
	program string  // clean
}

// follows reports whether a snapshot is of the engine that p shows, and not of one that has taken its place.
func (p *picture) follows(s *state.Snapshot) bool {
	return p.device.GUID == s.Device.GUID && p.device.PID == s.Device.PID &&
		p.device.Started.Equal(s.Device.Started)
}

// take makes p show a snapshot that was asked for by r.
func (p *picture) take(s *state.Snapshot, r *state.Request) {
	if !p.follows(s) {
		*p = picture{}
	}
	p.taken, p.device = s.Taken, s.Device
	p.takeThreads(s.Threads)
	whole := r.PID == 0 && r.Queue == 0
	if has(r, state.Clients) {
		p.takeClients(s, whole)
	}
	if has(r, state.Queues) {
		p.takeQueues(s, whole)
	}
	if has(r, state.CQs) {
		p.takeCQs(s, whole)
	}
}

func has(r *state.Request, k state.Kind) bool {
	for _, one := range r.Kinds {
		if one == k {
			return true
		}
	}
	return len(r.Kinds) == 0
}

func (p *picture) takeThreads(list []state.Thread) {
	before := p.memory.threads
	p.memory.threads = make(map[int]threadRow, len(list))
	p.clocks = make(map[int]uint64, len(list))
	p.threads = p.threads[:0]
	for _, t := range list {
		b, ok := before[t.Number]
		row := threadRow{Thread: t, busy: unknown, waited: unknown}
		past := float64(t.Time - b.Time)
		switch {
		case ok && past < leastSpan:
			row.busy, row.waited = b.busy, b.waited
			p.memory.threads[t.Number] = b
		default:
			if ok && t.Time > b.Time {
				row.busy = min(float64(t.Busy-min(b.Busy, t.Busy))/past, 1)
				row.waited = min(float64(t.Waited-min(b.Waited, t.Waited))/past, 1)
			}
			p.memory.threads[t.Number] = row
		}
		p.threads, p.clocks[t.Number] = append(p.threads, row), t.Time
	}
}

// clockOf returns the device clock when the objects of a thread's clients were read; 0 if it is unknown.
func (p *picture) clockOf(thread int) uint64 { return p.clocks[thread] }

func (p *picture) takeClients(s *state.Snapshot, whole bool) {
	before := p.memory.clients
	if whole {
		p.memory.clients = make(map[uint32]pastCount, len(s.Clients))
		p.total, p.past, p.waiting = rates{}, s.Device.Past, 0
		p.clients = p.clients[:0]
	}
	for i := range s.Clients {
		c := &s.Clients[i]
		b, ok := before[c.Number]
		now := pastCount{time: p.clockOf(c.Thread), Counts: c.Counts}.after(b, ok)
		row := clientRow{Client: *c, name: clientName(c), rates: now.rates}
		if !whole {
			p.replaceClient(row)
			continue
		}
		p.memory.clients[c.Number] = now
		p.clients = append(p.clients, row)
		p.past.Add(c.Counts)
		p.waiting += c.Waiting
		if ok {
			p.total.add(row.rates)
		}
	}
	if whole && before == nil {
		p.total = rates{unknown, unknown, unknown, unknown, unknown}
	}
}

// replaceClient takes the errors of a client that was asked for alone. Its rates stay those of the whole
// snapshots.
func (p *picture) replaceClient(row clientRow) {
	for i := range p.clients {
		if p.clients[i].Number == row.Number {
			row.rates = p.clients[i].rates
			p.clients[i] = row
		}
	}
}

// clientName returns a name for a client: that of its process, or that of the engine's log.
func clientName(c *state.Client) string {
	switch {
	case c.Program != "":
		return clean(c.Program)
	case c.Name != "":
		return clean(c.Name)
	}
	return fmt.Sprintf("client %d", c.Number)
}

func (p *picture) clientsByNumber() map[uint32]*clientRow {
	m := make(map[uint32]*clientRow, len(p.clients))
	for i := range p.clients {
		m[p.clients[i].Number] = &p.clients[i]
	}
	return m
}

func (p *picture) takeQueues(s *state.Snapshot, whole bool) {
	before, codes, clients := p.memory.queues, p.codes(), p.clientsByNumber()
	if whole || before == nil {
		p.memory.queues = make(map[uint32]pastCount, len(s.Queues))
		p.queues = p.queues[:0]
	}
	for i := range s.Queues {
		q := &s.Queues[i]
		now := pastCount{time: q.Time,
			Counts: state.Counts{WQEs: q.WQEs, Bytes: q.Bytes, Receives: q.Consumed}}
		b, ok := before[q.Number]
		now = now.after(b, ok)
		row := queueRow{Queue: *q, code: codes[q.Number], rates: now.rates, program: "?"}
		if c := clients[q.Client]; c != nil {
			row.program, row.thread = c.name, c.Thread
		}
		p.memory.queues[q.Number] = now
		p.putQueue(row, whole)
	}
}

func (p *picture) putQueue(row queueRow, whole bool) {
	if !whole {
		for i := range p.queues {
			if p.queues[i].Number == row.Number {
				p.queues[i] = row
				return
			}
		}
	}
	p.queues = append(p.queues, row)
}

// codes returns the code of the last explanation about each queue.
func (p *picture) codes() map[uint32]string {
	codes := map[uint32]string{}
	for i := range p.clients {
		for _, e := range p.clients[i].Errors { // the newest first
			if _, ok := codes[e.Queue]; !ok && e.Queue != 0 {
				codes[e.Queue] = clean(e.Code)
			}
		}
	}
	return codes
}

func (p *picture) takeCQs(s *state.Snapshot, whole bool) {
	before, clients := p.memory.cqs, p.clientsByNumber()
	if whole || before == nil {
		p.memory.cqs = make(map[uint32]pastCount, len(s.CQs))
		p.cqs = p.cqs[:0]
	}
	for i := range s.CQs {
		c := &s.CQs[i]
		row := cqRow{CQ: *c, program: "?"}
		now := pastCount{Counts: state.Counts{CQEs: c.Written}}
		if owner := clients[c.Client]; owner != nil {
			row.program, now.time = owner.name, p.clockOf(owner.Thread)
		}
		b, ok := before[c.Number]
		now = now.after(b, ok)
		row.rate = now.rates.cqes
		p.memory.cqs[c.Number] = now
		p.putCQ(row, whole)
	}
}

func (p *picture) putCQ(row cqRow, whole bool) {
	if !whole {
		for i := range p.cqs {
			if p.cqs[i].Number == row.Number {
				p.cqs[i] = row
				return
			}
		}
	}
	p.cqs = append(p.cqs, row)
}

// queue returns a queue pair; nil if it is not there.
func (p *picture) queue(number uint32) *queueRow {
	for i := range p.queues {
		if p.queues[i].Number == number {
			return &p.queues[i]
		}
	}
	return nil
}

// cq returns a completion queue; nil if it is not there.
func (p *picture) cq(number uint32) *cqRow {
	for i := range p.cqs {
		if p.cqs[i].Number == number {
			return &p.cqs[i]
		}
	}
	return nil
}

// errorsOf returns the explanations about a queue, the newest first.
func (p *picture) errorsOf(number uint32) (list []state.Error) {
	for i := range p.clients {
		for _, e := range p.clients[i].Errors {
			if e.Queue == number {
				list = append(list, e)
			}
		}
	}
	return list
}
