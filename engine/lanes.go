package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
)

// Several lanes share the device. Who holds the turnstile of a lane may touch what
// belongs to its clients; a lane holds its own while it works. For a work request
// whose peer belongs to another lane it needs that one's too: the queue is put off
// to the end of the step, and then visited with both held.
//
// The tables of the device are read by all lanes, and changed by requests only,
// which are served while all turnstiles are held. What a work request changes of a
// key, it changes with that of the client whose key it is.
//
// No thread waits for a lane of a lower number while it holds one, so no circle of
// waiting lanes can form.

// A crossing is what a lane has to do with others.
type crossing struct {
	mine    turnstile
	inside  bool  // this lane's thread holds mine
	with    *lane // whose turnstile it holds as well, or nil
	stirred bool  // another lane has brought work
	later   []*qp // put off to the end of this step
	crossed int   // how many of them were, for their work
	dealing []*qp // put off in the step before, being visited
	owed    []debt
	denied  uint64      // device clock when the other lane was found at work; 0: it was not
	refuse  func() bool // tests: the other lane is at work
}

// A debt is a shared receive that was taken for nothing from a client of another
// lane.
type debt struct {
	srq   *srq
	index uint16
}

// crossPatience is how long a lane goes on with its own work because the other one
// is at work whenever it looks; then it waits. crossPause is between two looks at
// a queue that waits for a peer in another lane, each of which costs that lane.
// crossVisits is how many queues are visited before the other lane may go on.
const (
	crossPatience = 5 * time.Microsecond
	crossPause    = 2 * time.Microsecond
	crossVisits   = 4
)

// checkCores says what is wrong with the cores that the lanes are to run on.
func (c *Config) checkCores() error {
	if c.CPUs != nil && c.Cores != nil {
		return fmt.Errorf("%w: CPUs %v and Cores %v; CPUs is for an engine of one thread", ErrCPUs, c.CPUs, c.Cores)
	}
	if c.DMACores != nil && len(c.Cores) > 1 {
		return fmt.Errorf("%w: Cores %v and DMACores %v; DMA cores help one thread only", ErrCPUs, c.Cores, c.DMACores)
	}
	for i, core := range c.Cores {
		if slices.Contains(c.Cores[:i], core) {
			return fmt.Errorf("%w: core %d is named twice in %v; each gets one thread", ErrCPUs, core, c.Cores)
		}
	}
	if c.Cores != nil && len(c.Cores) == 0 {
		return fmt.Errorf("%w: Cores is empty; at least one is needed", ErrCPUs)
	}
	return nil
}

// begin and end bracket the work of a lane.
func (e *lane) begin() {
	if e.several {
		if !e.mine.tryLock() {
			now := clock.Now()
			e.busy.Publish(0)
			e.mine.lock()
			e.passedAt(now)
			e.restart() // how long that took is no matter of this lane's
		}
		e.inside, e.crossed = true, 0
	}
}

func (e *lane) end() {
	if e.several {
		e.inside = false
		e.mine.unlock()
	}
}

// holds reports whether this lane may touch what belongs to clients of m.
func (e *lane) holds(m *lane) bool { return m == e || m == e.with || e.stopped }

// across returns the lane of the peer that q is about to reach, if this one does
// not hold it. Where a datagram goes is found out when it is judged.
func (e *lane) across(q *qp) *lane {
	p := q.peer
	switch {
	case q.transport == control.QPTypeUD:
		if q.job == nil {
			return nil
		}
		p = q.job.peer
	case p == nil || p.dead:
		p = e.boundPeer(q)
	}
	if p == nil || e.holds(p.client.lane) {
		return nil
	}
	return p.client.lane
}

// burstAcross is burst where there are other lanes. What is put off is charged in
// advance.
func (e *lane) burstAcross(q *qp, n uint16) (done int) {
	if m := e.across(q); m != nil {
		e.putOff(q, m)
	} else {
		done = e.burst(q, n)
	}
	if q.later && done == 0 {
		e.crossed++
		done = 1
	}
	if q.later {
		e.spent = e.cfg.Slice
	}
	return done
}

// putOff has q visited at the end of the step, together with lane m.
func (e *lane) putOff(q *qp, m *lane) {
	q.other = m
	if !q.later {
		q.later = true
		e.later = append(e.later, q)
	}
}

// deal visits the queues that were put off, and returns how much there was to do.
// Those whose other lane is at work stay for the next step, but not for ever; with
// urgent set, because there is nothing else to do, they wait here.
func (e *lane) deal(urgent bool) (done int) {
	if len(e.owed) > 0 {
		done += e.payBack(urgent)
	}
	if len(e.later) == 0 {
		return done
	}
	e.later, e.dealing = e.dealing[:0], e.later
	visits := 0
	for i, q := range e.dealing {
		if q == nil {
			continue // its client has moved to another lane
		}
		if visits == crossVisits || e.with != q.other {
			e.separate()
			visits = 0
		}
		if !e.meet(q.other, urgent) {
			e.later, e.dealing[i] = append(e.later, q), nil
			continue
		}
		if q = e.dealing[i]; q == nil {
			continue // likewise, while this lane waited
		}
		e.dealing[i], q.later = nil, false
		visits++
		done += e.visitAcross(q)
	}
	e.dealing = e.dealing[:0]
	e.separate()
	return done
}

// visitAcross visits a queue whose peer may be touched now.
func (e *lane) visitAcross(q *qp) (done int) {
	switch {
	case !e.enlisted(q):
	case q.stall.kind == noStall:
		if done = e.visit(q); done > 0 {
			e.visited(q)
		}
	case e.try(q):
		done = 1
	}
	e.cur = nil
	return done
}

// meet takes the turnstile of m as well, and reports whether it has it. It waits
// only if urgent, or out of patience.
func (e *lane) meet(m *lane, urgent bool) bool {
	switch {
	case e.holds(m):
		return true
	case e.refuse != nil && e.refuse():
	case m.mine.tryLock():
		e.with, e.denied = m, 0
		return true
	}
	if !urgent {
		if e.denied == 0 {
			e.denied = e.clock()
		}
		if e.clock()-e.denied < clock.Cycles(crossPatience) {
			return false
		}
	}
	e.passed()
	if m.number < e.number {
		e.inside = false
		e.mine.unlock() // nobody waits for a lower one with one in hand
		m.mine.lock()
		e.mine.lock()
		e.inside = true
	} else {
		m.mine.lock()
	}
	e.restart()
	e.with, e.denied = m, 0
	return true
}

// separate lets the other lane go on, and wakes it if there is work for it now, or
// may be: a WAIT of one of its queues for what has been completed there.
func (e *lane) separate() {
	m := e.with
	if m == nil {
		return
	}
	e.with = nil
	if m.stirred || len(m.stalled) > 0 {
		m.stirred = false
		m.rouse()
	}
	m.mine.unlock()
}

// rouse wakes a lane that sleeps.
func (e *lane) rouse() {
	if e.asleep.Load() && e.bed != nil {
		e.bed.rouse()
	}
}

// payBack returns shared receives to clients of other lanes.
func (e *lane) payBack(urgent bool) (done int) {
	owed := e.owed
	e.owed = nil
	for _, d := range owed {
		if !e.meet(d.srq.client.lane, urgent) {
			e.owed = append(e.owed, d)
			continue
		}
		d.srq.giveBack(d.index)
		e.separate()
		done++
	}
	return done
}

// letGo ends a step that a fault of memory has cut off.
func (e *lane) letGo() {
	if !e.inside {
		return
	}
	for _, q := range e.dealing {
		if q != nil {
			e.later = append(e.later, q)
		}
	}
	e.dealing = e.dealing[:0]
	e.separate()
	e.end()
}

// pause has all lanes rest while a request is served.
func (e *Engine) pause() {
	if len(e.lanes) > 1 {
		for _, l := range e.lanes {
			l.mine.lock()
		}
	}
	e.stopped = true
	e.served++
}

// goOn ends it.
func (e *Engine) goOn() {
	e.stopped = false
	if len(e.lanes) > 1 {
		for _, l := range e.lanes {
			l.mine.unlock()
			l.rouse() // what it waits for may have been in the request
		}
	}
}

// crossesLanes reports whether a queue of this lane waits for a peer in another,
// whose clients do not wake this one.
func (e *lane) crossesLanes() bool {
	for _, q := range e.stalled {
		if q.stall.kind != behindCQ && e.across(q) != nil {
			return true
		}
	}
	return false
}
