//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A queue pair that has had work lately is warm: it is on its client's warm list and is
// visited in turn. All others are cold: only their send records are polled, a few in each
// step. That is the patrol, and it finds new work within a bounded number of steps. So
// the cost of a step depends on how many queues are warm, not on how many exist.
//
// A queue can also get work without an update of its record: by a change of state, by
// SEND_EN, at the end of a wait. Each of these marks the queue warm.

// The budget of one client in a step. While other clients work too, its queues together
// get what one queue may have, Burst and Slice, and a few visits, so that a client with
// thousands of warm queues gets no more of the device than a client with one. While no
// other client works it gets more, but not so much that a newcomer notices.
const (
	aloneShare   = 8
	aloneVisits  = 64
	rivalVisits  = 16
	rivalryTurns = 1024 // a client that has worked counts as working for so many steps more
)

// Patience is the number of idle visits after which a queue turns cold. With few warm
// queues that takes most of a millisecond. With many it takes fewer visits each, so that
// long lists shrink quickly.
const (
	mostIdleVisits  = 1 << 15 // divided by the number of warm queues
	leastIdleVisits = 1 << 6
)

// fewQueues is the number of queues up to which all are kept warm: visiting them costs
// less than telling warm from cold.
const fewQueues = 8

// How many cold records a step polls. It is at least patrolPolls, so each of n records is
// polled within n/patrolPolls steps. A long step polls one for each patrolCycles cycles
// that it takes, which costs a few percent of its time. After patrolQuiet steps without
// work each step polls so many that all are polled within another patrolQuiet steps.
const (
	patrolPolls     = 4
	patrolCycles    = 256
	patrolMostPolls = 1024
	patrolQuiet     = 256
)

// A watch holds what patrol needs to know of a cold queue pair. Patrol then touches only
// one cache line of the queue pair.
type watch struct {
	rec  *shm.BE32 // send record; nil: the queue is warm
	q    *qp
	num  uint32 // of q
	word uint64 // value of the record when there was no work; or unknownWord
}

// unknownWord is the word of a queue that can get work while its send record stays as it
// is. It equals no record, so that patrol examines the queue each time.
const unknownWord = 1 << 32

// addRunning adds q to its shard's running queues. If they are few, q is warm from now on.
// It also makes room in every list that a step appends to, so that no step allocates.
func (sh *shard) addRunning(q *qp) {
	own := q.client.shard
	q.sched.at = len(own.running)
	own.running = append(own.running, q)
	own.sched.watches = append(own.sched.watches, watch{rec: q.sq.record, q: q, num: q.num, word: unknownWord})
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

// isRunning reports whether q is among the running queues of this shard. A queue in RST
// is not.
func (sh *shard) isRunning(q *qp) bool {
	return q.sched.at < len(sh.running) && sh.running[q.sched.at] == q
}

// removeRunning removes q from the running queues. The last one takes its place. Patrol
// goes from the last to the first, so it misses none.
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
		own.sched.unswept = last // the queue that moved may not have been swept yet
	}
}

// markWarm puts q on its client's warm list, because it has work or may have.
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

// unmarkWarm removes q from its client's warm list. The last queue takes its place, and
// also its turn if q was next.
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

// countWarm adds to the number of warm queues, on which patience depends.
func (sh *shard) countWarm(more int) {
	sh.sched.warm += more
	sh.sched.patience = uint32(max(mostIdleVisits/max(sh.sched.warm, 1), leastIdleVisits))
}

// coolDown makes q cold, unless it has work after all.
//
// It reads the record before hasWork does: work that is announced between the two reads
// changes the record, which patrol notices.
func (sh *shard) coolDown(q *qp) {
	word := uint64(q.sq.record.Observe())
	if sh.hasWork(q) {
		q.sched.idleVisits = 0
		return
	}
	if q.flushes() {
		word = unknownWord
	}
	sh.unmarkWarm(q)
	w := &sh.sched.watches[q.sched.at]
	w.rec, w.word = q.sq.record, word
}

// flushes reports whether WQEs of q, and perhaps its receives, are flushed.
func (q *qp) flushes() bool {
	return q.attr.State == control.StateERR || q.attr.State == control.StateSQE
}

// hasWork reports whether a visit to q would find work. A stalled queue has none, whatever
// is announced, until its stall ends.
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

// visitClients gives each client that has warm queues its turn. A fault of memory ends
// one client's turn; the next step goes on with the other clients.
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

// visitClient visits warm queues of c in turn, until each has been visited or the budget
// of c in this step is used up.
func (sh *shard) visitClient(c *client) (done int) {
	visits, wqes, bytes := aloneVisits, sh.sched.alone.wqes, sh.sched.alone.bytes
	if int32(sh.sched.rivalsUntil-sh.sched.turn) > 0 {
		visits, wqes, bytes = rivalVisits, sh.cfg.Burst, sh.cfg.Slice
	}
	for visits = min(visits, len(c.sched.warm)); visits > 0 && c.sched.next < len(c.sched.warm); visits-- {
		q := c.sched.warm[c.sched.next]
		if c.sched.next++; c.sched.next == len(c.sched.warm) {
			c.sched.next = 0 // set before the visit, so a queue that turns warm in the visit comes after the others
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

// patrol polls the records of the next cold queues, marks those that have work warm, and
// returns how many these are.
func (sh *shard) patrol(polls int) (found int) {
	sh.fault.part = cutLast
	for range min(polls, len(sh.sched.watches)) {
		if sh.sched.patrolled == 0 || sh.sched.patrolled > len(sh.sched.watches) {
			sh.sched.patrolled = len(sh.sched.watches)
		}
		sh.sched.patrolled--
		w := &sh.sched.watches[sh.sched.patrolled]
		if w.rec == nil {
			continue
		}
		if sh.timedUntil != 0 {
			sh.timePoll()
		}
		sh.fault.qp = w.q // which owns the record: a fault of memory is an error of this queue
		sh.at.Publish(uint64(w.num))
		if word := uint64(w.rec.Observe()); word != w.word {
			found += sh.examine(w, word)
		}
	}
	sh.fault.qp = nil
	sh.fault.part = cutVisits
	return found
}

// patrolAll polls the records of all cold queues.
func (sh *shard) patrolAll() (found int) {
	sh.acquire()
	if sh.sched.warm < len(sh.sched.watches) {
		found = sh.patrol(len(sh.sched.watches))
	}
	sh.release()
	return found
}

// examine marks a cold queue warm if it has work, and returns how many queues it marked.
// Otherwise it notes word, which is what the queue's record says now.
func (sh *shard) examine(w *watch, word uint64) int {
	if sh.hasWork(w.q) {
		sh.markWarm(w.q)
		return 1
	}
	if w.q.flushes() {
		word = unknownWord
	}
	w.word = word
	return 0
}

// patrolBudget returns how many cold queues this step polls. The length of a step is known
// if it and the step before had work, because such steps read the clock.
func (sh *shard) patrolBudget(done int) int {
	polls := patrolPolls
	switch {
	case done == 0:
		if sh.sched.quiet++; sh.sched.quiet > patrolQuiet {
			polls += len(sh.sched.watches) / patrolQuiet
		}
		return polls
	case sh.sched.quiet == 0 && sh.ticks != 0 && sh.sched.worked != 0:
		polls = int(min(max((sh.ticks-sh.sched.worked)/patrolCycles, patrolPolls), patrolMostPolls))
	}
	sh.sched.quiet, sh.sched.worked = 0, sh.ticks
	return polls
}
