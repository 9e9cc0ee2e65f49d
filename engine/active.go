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
	mostIdleVisits  = 1 << 15 // divided by the number of warm queues
	leastIdleVisits = 1 << 6
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

// addRunning puts q among the queues that the device looks at; if they are few it is
// warm from now on. What a step could append to has room from here on.
func (sh *shard) addRunning(q *qp) {
	own := q.client.shard
	q.sched.at = len(own.running)
	own.running = append(own.running, q)
	own.sched.watches = append(own.sched.watches, watch{rec: q.sq.record, q: q, num: q.num, word: closely})
	own.stalled = slices.Grow(own.stalled, len(own.running))
	q.client.sched.warm = slices.Grow(q.client.sched.warm, len(q.client.qps)-len(q.client.sched.warm))
	own.sched.active = slices.Grow(own.sched.active, max(len(own.clients)-len(own.sched.active), 0))
	if own.several {
		own.postponed = slices.Grow(own.postponed, len(own.running))
		own.visiting = slices.Grow(own.visiting, len(own.running))
	}
	if len(own.sched.watches) <= own.sched.few {
		own.markWarm(q)
	}
}

// isRunning reports whether q is among them, which it is unless it is in RST.
func (sh *shard) isRunning(q *qp) bool {
	return q.sched.at < len(sh.running) && sh.running[q.sched.at] == q
}

// removeRunning takes q off them. The last one takes its place; patrol goes from the
// last to the first, and so misses nobody.
func (sh *shard) removeRunning(q *qp) {
	own := q.client.shard
	if !own.isRunning(q) {
		return
	}
	own.unmarkWarm(q)
	last := len(own.running) - 1
	own.running[q.sched.at], own.sched.watches[q.sched.at] = own.running[last], own.sched.watches[last]
	own.running[q.sched.at].sched.at = q.sched.at
	own.running[last], own.sched.watches[last] = nil, watch{}
	own.running, own.sched.watches = own.running[:last], own.sched.watches[:last]
	if own.sched.unswept > 0 {
		own.sched.unswept = last // the one that took its place may have been still to come
	}
}

// markWarm puts q on its client's list, because there is work for it, or may be.
func (sh *shard) markWarm(q *qp) {
	c := q.client
	own := c.shard
	if own != sh {
		own.gotWork = true
	}
	q.sched.idleVisits = 0
	if q.sched.warm != 0 || !own.isRunning(q) {
		return
	}
	c.sched.warm = append(c.sched.warm, q)
	q.sched.warm = len(c.sched.warm)
	own.sched.watches[q.sched.at].rec = nil
	if !c.sched.active {
		c.sched.active = true
		own.sched.active = append(own.sched.active, c)
	}
	own.countWarm(1)
}

// unmarkWarm takes q off its client's list. The last one takes its place, and its
// turn if it was q's just now.
func (sh *shard) unmarkWarm(q *qp) {
	if q.sched.warm == 0 {
		return
	}
	c, at := q.client, q.sched.warm-1
	last := len(c.sched.warm) - 1
	c.sched.warm[at] = c.sched.warm[last]
	c.sched.warm[at].sched.warm = q.sched.warm
	c.sched.warm[last], c.sched.warm = nil, c.sched.warm[:last]
	q.sched.warm = 0
	if c.sched.next == at+1 {
		c.sched.next = at
	}
	if c.sched.next >= last {
		c.sched.next = 0
	}
	sh.countWarm(-1)
}

// countWarm keeps the number of warm queues.
func (sh *shard) countWarm(more int) {
	sh.sched.warm += more
	sh.sched.patience = uint32(max(mostIdleVisits/max(sh.sched.warm, 1), leastIdleVisits))
}

// coolDown lets q be cold, unless there is work for it after all.
//
// The record is read before it is asked for work: what is announced between the
// two is news to patrol.
func (sh *shard) coolDown(q *qp) {
	word := uint64(q.sq.record.Observe())
	if sh.hasWork(q) {
		q.sched.idleVisits = 0
		return
	}
	if q.flushes() {
		word = closely
	}
	sh.unmarkWarm(q)
	w := &sh.sched.watches[q.sched.at]
	w.rec, w.word = q.sq.record, word
}

// flushes reports whether what is in q's queues is flushed, receives too perhaps.
func (q *qp) flushes() bool {
	return q.attr.State == control.StateERR || q.attr.State == control.StateSQE
}

// hasWork reports whether a visit to q would find work. One that waits for its
// peer has none, whatever is announced, until its waiting ends.
func (sh *shard) hasWork(q *qp) bool {
	switch q.attr.State {
	case control.StateRTS:
		return q.stall.kind == noStall && (q.job != nil || sh.pending(q) > 0)
	case control.StateSQD:
		return q.job != nil
	case control.StateSQE:
		return sh.pending(q) > 0
	case control.StateERR:
		return sh.pending(q) > 0 || q.rq.srq == nil && q.posted() > 0
	}
	return false
}

// visitClients gives each client that has warm queues its turn. A fault of memory
// ends the turn of one; the next step goes on with the others.
func (sh *shard) visitClients() (done int) {
	for sh.sched.from < len(sh.sched.active) {
		c := sh.sched.active[sh.sched.from]
		sh.sched.from++
		done += sh.visitClient(c)
		if len(c.sched.warm) == 0 {
			sh.sched.from--
			last := len(sh.sched.active) - 1
			sh.sched.active[sh.sched.from], sh.sched.active[last] = sh.sched.active[last], nil
			sh.sched.active = sh.sched.active[:last]
			c.sched.active = false
		}
	}
	sh.sched.from = 0
	return done
}

// visitClient visits warm queues of c, one after the other, until each has been visited
// or what c may have of this step is used up.
func (sh *shard) visitClient(c *Client) (done int) {
	looks, wqes, bytes := aloneLooks, sh.sched.alone.wqes, sh.sched.alone.bytes
	if int32(sh.sched.rivalsUntil-sh.sched.turn) > 0 {
		looks, wqes, bytes = rivalLooks, sh.cfg.Burst, sh.cfg.Slice
	}
	for looks = min(looks, len(c.sched.warm)); looks > 0 && c.sched.next < len(c.sched.warm); looks-- {
		q := c.sched.warm[c.sched.next]
		if c.sched.next++; c.sched.next == len(c.sched.warm) {
			c.sched.next = 0 // only now: who joins has its turn behind the others
		}
		sh.sched.spent = 0
		n := sh.visit(q)
		if n == 0 {
			if q.sched.idleVisits++; (q.sched.idleVisits >= sh.sched.patience || q.stall.kind != noStall) && len(sh.sched.watches) > sh.sched.few {
				sh.coolDown(q)
			}
			continue
		}
		sh.visited(q)
		q.sched.idleVisits = 0
		done += n
		if bytes -= sh.sched.spent; done >= wqes || bytes <= 0 {
			break
		}
	}
	if done > 0 {
		if sh.sched.lastWorker != c {
			if sh.sched.lastWorker != nil && sh.sched.turn-sh.sched.lastWorked < rivalryTurns {
				sh.sched.rivalsUntil = sh.sched.turn + rivalryTurns
			}
			sh.sched.lastWorker = c
		}
		sh.sched.lastWorked = sh.sched.turn
	}
	return done
}

// patrol looks at the next cold queues, warms those that have work, and returns
// how many.
func (sh *shard) patrol(looks int) (found int) {
	sh.fault.part = cutLast
	for range min(looks, len(sh.sched.watches)) {
		if sh.sched.patrolled == 0 || sh.sched.patrolled > len(sh.sched.watches) {
			sh.sched.patrolled = len(sh.sched.watches)
		}
		sh.sched.patrolled--
		w := &sh.sched.watches[sh.sched.patrolled]
		if w.rec == nil {
			continue
		}
		if sh.near != 0 {
			sh.timeLook()
		}
		sh.fault.qp = w.q // whose memory it is, if it faults
		sh.at.Publish(uint64(w.num))
		if word := uint64(w.rec.Observe()); word != w.word {
			found += sh.notice(w, word)
		}
	}
	sh.fault.qp = nil
	sh.fault.part = cutVisits
	return found
}

// patrolAll looks at all cold queues.
func (sh *shard) patrolAll() (found int) {
	sh.begin()
	if sh.sched.warm < len(sh.sched.watches) {
		found = sh.patrol(len(sh.sched.watches))
	}
	sh.end()
	return found
}

// notice looks closely at a cold queue, whose record said word before.
func (sh *shard) notice(w *watch, word uint64) int {
	if sh.hasWork(w.q) {
		sh.markWarm(w.q)
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
func (sh *shard) rounds(done int) int {
	looks := patrolLooks
	switch {
	case done == 0:
		if sh.sched.quiet++; sh.sched.quiet > patrolQuiet {
			looks += len(sh.sched.watches) / patrolQuiet
		}
		return looks
	case sh.sched.quiet == 0 && sh.ticks != 0 && sh.sched.worked != 0:
		looks = int(min(max((sh.ticks-sh.sched.worked)/patrolCycles, patrolLooks), patrolMost))
	}
	sh.sched.quiet, sh.sched.worked = 0, sh.ticks
	return looks
}
