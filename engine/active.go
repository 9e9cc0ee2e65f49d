package engine

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A queue pair that has had work lately is warm: it is on its client's list, and
// visited in turn. All others are cold: the device looks at the records of a few
// of them in each step, and finds out within a bounded number of steps that
// there is work. So a step costs what warm queues cost, however many there are.
//
// What makes work for a queue without its record moving warms it: a change of its
// state, SEND_EN, the end of a wait.

// How much of a step one client gets. While others work too, its queues together
// get what one queue may have, Burst and Slice, and a few looks; so a client with
// thousands of warm queues takes no more of the device than one with a single
// queue. Alone it gets more, still not so much that a newcomer notices.
const (
	aloneShare   = 8
	aloneLooks   = 64
	rivalLooks   = 16
	rivalryTurns = 1024 // steps for which it counts that somebody else has worked
)

// Patience is how often a queue is looked at for nothing before it turns cold:
// for a few queues the best part of a millisecond, for many fewer looks each, so
// that the longer the lists are, the faster they get shorter.
const (
	mostPatience  = 1 << 15 // divided by the number of warm queues
	leastPatience = 1 << 6
)

// fewQueues is how many queues are all kept warm: to visit them costs less than
// to tell them apart.
const fewQueues = 8

// How many cold records a step looks at: a few at least, so that each of n is
// looked at in n/patrolLooks steps. When steps are long, so many more that a
// few percent of the time goes to it: one for so many cycles. After so many steps
// without work, as many as it takes to come round in as many steps again.
const (
	patrolLooks  = 4
	patrolCycles = 256
	patrolMost   = 1024
	patrolQuiet  = 256
)

// A watch is what is looked at of a cold queue pair, without touching more of it.
type watch struct {
	rec  *shm.BE32 // its send record; nil: the queue is warm
	q    *qp
	num  uint32 // q's
	word uint64 // of the record, when there was nothing to do; or closely
}

// closely is the word of a queue whose record is not all that can bring work.
const closely = 1 << 32

// enlist puts q among the queues that the device looks at; if they are few it is
// warm from now on. What a step could append to has room from here on.
func (e *lane) enlist(q *qp) {
	e = q.client.lane
	q.at = len(e.running)
	e.running = append(e.running, q)
	e.watches = append(e.watches, watch{rec: q.sendRec, q: q, num: q.num, word: closely})
	e.stalled = slices.Grow(e.stalled, len(e.running))
	q.client.warm = slices.Grow(q.client.warm, len(q.client.qps)-len(q.client.warm))
	e.active = slices.Grow(e.active, max(len(e.clients)-len(e.active), 0))
	if e.several {
		e.later = slices.Grow(e.later, len(e.running))
		e.dealing = slices.Grow(e.dealing, len(e.running))
	}
	if len(e.watches) <= e.few {
		e.warm(q)
	}
}

// enlisted reports whether q is among them, which it is unless it is in RST.
func (e *lane) enlisted(q *qp) bool { return q.at < len(e.running) && e.running[q.at] == q }

// dismiss takes q off them. The last one takes its place; patrol goes from the
// last to the first, and so misses nobody.
func (e *lane) dismiss(q *qp) {
	e = q.client.lane
	if !e.enlisted(q) {
		return
	}
	e.unlist(q)
	last := len(e.running) - 1
	e.running[q.at], e.watches[q.at] = e.running[last], e.watches[last]
	e.running[q.at].at = q.at
	e.running[last], e.watches[last] = nil, watch{}
	e.running, e.watches = e.running[:last], e.watches[:last]
	if e.unswept > 0 {
		e.unswept = last // the one that took its place may have been still to come
	}
}

// warm puts q on its client's list, because there is work for it, or may be.
func (e *lane) warm(q *qp) {
	c := q.client
	if c.lane != e {
		e = c.lane
		e.stirred = true
	}
	q.vain = 0
	if q.warm != 0 || !e.enlisted(q) {
		return
	}
	c.warm = append(c.warm, q)
	q.warm = len(c.warm)
	e.watches[q.at].rec = nil
	if !c.active {
		c.active = true
		e.active = append(e.active, c)
	}
	e.count(1)
}

// unlist takes q off its client's list. The last one takes its place, and its
// turn if it was q's just now.
func (e *lane) unlist(q *qp) {
	if q.warm == 0 {
		return
	}
	c, at := q.client, q.warm-1
	last := len(c.warm) - 1
	c.warm[at] = c.warm[last]
	c.warm[at].warm = q.warm
	c.warm[last], c.warm = nil, c.warm[:last]
	q.warm = 0
	if c.next == at+1 {
		c.next = at
	}
	if c.next >= last {
		c.next = 0
	}
	e.count(-1)
}

// count keeps the number of warm queues.
func (e *lane) count(more int) {
	e.warmth += more
	e.patience = uint32(max(mostPatience/max(e.warmth, 1), leastPatience))
}

// cool lets q be cold, unless there is work for it after all.
//
// The record is read before it is asked for work: what is announced between the
// two is news to patrol.
func (e *lane) cool(q *qp) {
	word := uint64(q.sendRec.Observe())
	if e.stirs(q) {
		q.vain = 0
		return
	}
	if q.flushes() {
		word = closely
	}
	e.unlist(q)
	w := &e.watches[q.at]
	w.rec, w.word = q.sendRec, word
}

// flushes reports whether what is in q's queues is flushed, receives too perhaps.
func (q *qp) flushes() bool {
	return q.attr.State == control.StateERR || q.attr.State == control.StateSQE
}

// stirs reports whether a visit to q would find work. One that waits for its
// peer has none, whatever is announced, until its waiting ends.
func (e *lane) stirs(q *qp) bool {
	switch q.attr.State {
	case control.StateRTS:
		return q.stall.kind == noStall && (q.job != nil || e.pending(q) > 0)
	case control.StateSQD:
		return q.job != nil
	case control.StateSQE:
		return e.pending(q) > 0
	case control.StateERR:
		return e.pending(q) > 0 || q.srq == nil && q.posted() > 0
	}
	return false
}

// attendAll gives each client that has warm queues its turn. A fault of memory
// ends the turn of one; the next step goes on with the others.
func (e *lane) attendAll() (done int) {
	for e.from < len(e.active) {
		c := e.active[e.from]
		e.from++
		done += e.attend(c)
		if len(c.warm) == 0 {
			e.from--
			last := len(e.active) - 1
			e.active[e.from], e.active[last] = e.active[last], nil
			e.active = e.active[:last]
			c.active = false
		}
	}
	e.from = 0
	return done
}

// attend visits warm queues of c, one after the other, until each has been visited
// or what c may have of this step is used up.
func (e *lane) attend(c *Client) (done int) {
	looks, wqes, bytes := aloneLooks, e.alone.wqes, e.alone.bytes
	if int32(e.rivalry-e.turn) > 0 {
		looks, wqes, bytes = rivalLooks, e.cfg.Burst, e.cfg.Slice
	}
	for looks = min(looks, len(c.warm)); looks > 0 && c.next < len(c.warm); looks-- {
		q := c.warm[c.next]
		if c.next++; c.next == len(c.warm) {
			c.next = 0 // only now: who joins has its turn behind the others
		}
		e.spent = 0
		n := e.visit(q)
		if n == 0 {
			if q.vain++; (q.vain >= e.patience || q.stall.kind != noStall) && len(e.watches) > e.few {
				e.cool(q)
			}
			continue
		}
		e.visited(q)
		q.vain = 0
		done += n
		if bytes -= e.spent; done >= wqes || bytes <= 0 {
			break
		}
	}
	if done > 0 {
		if e.worker != c {
			if e.worker != nil && e.turn-e.laboured < rivalryTurns {
				e.rivalry = e.turn + rivalryTurns
			}
			e.worker = c
		}
		e.laboured = e.turn
	}
	return done
}

// patrol looks at the next cold queues, warms those that have work, and returns
// how many.
func (e *lane) patrol(looks int) (found int) {
	e.part = cutLast
	for range min(looks, len(e.watches)) {
		if e.patrolled == 0 || e.patrolled > len(e.watches) {
			e.patrolled = len(e.watches)
		}
		e.patrolled--
		w := &e.watches[e.patrolled]
		if w.rec == nil {
			continue
		}
		if e.near != 0 {
			e.glance()
		}
		e.cur = w.q // whose memory it is, if it faults
		e.at.Publish(uint64(w.num))
		if word := uint64(w.rec.Observe()); word != w.word {
			found += e.notice(w, word)
		}
	}
	e.cur = nil
	e.part = cutVisits
	return found
}

// patrolAll looks at all cold queues.
func (e *lane) patrolAll() (found int) {
	e.begin()
	if e.warmth < len(e.watches) {
		found = e.patrol(len(e.watches))
	}
	e.end()
	return found
}

// notice looks closely at a cold queue, whose record said word before.
func (e *lane) notice(w *watch, word uint64) int {
	if e.stirs(w.q) {
		e.warm(w.q)
		return 1
	}
	if w.q.flushes() {
		word = closely
	}
	w.word = word
	return 0
}

// rounds returns at how many cold queues this step looks. Those that worked, one
// after the other, have read the clock, and so are known to be long.
func (e *lane) rounds(done int) int {
	looks := patrolLooks
	switch {
	case done == 0:
		if e.quiet++; e.quiet > patrolQuiet {
			looks += len(e.watches) / patrolQuiet
		}
		return looks
	case e.quiet == 0 && e.ticks != 0 && e.worked != 0:
		looks = int(min(max((e.ticks-e.worked)/patrolCycles, patrolLooks), patrolMost))
	}
	e.quiet, e.worked = 0, e.ticks
	return looks
}
