//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A queue pair that has had work lately is warm: it is on its client's warm list and is
// visited in every turn of the client. All other queue pairs are cold: only their send
// records are polled, a few in each step. This polling is the patrol. It finds new work
// within a bounded number of steps. So the cost of a step depends on how many queues are
// warm, not on how many exist.
//
// A queue can also get work without an update of its record: by a change of state, by
// SEND_EN, at the end of a wait. Each of these marks the queue warm.

// These constants set the budget of one client in a step. While other clients work too,
// all queues of the client together get what one queue may have, which is Burst and Slice,
// and at most rivalVisits visits. So a client with thousands of warm queues gets no more of
// the device than a client with one. While no other client works, the client gets
// aloneShare times Burst and Slice, and at most aloneVisits visits. This is little enough
// that a second client which begins to work does not notice a delay.
const (
	aloneShare   = 8
	aloneVisits  = 64
	rivalVisits  = 16
	rivalryTurns = 1024 // a client that has worked counts as working for this many more steps
)

// The patience of a shard is the number of idle visits after which a queue turns cold. With
// few warm queues a queue stays warm for almost a millisecond. With many warm queues the
// patience is lower, so that long warm lists shrink quickly.
const (
	mostIdleVisits  = 1 << 15 // the patience is this number divided by the number of warm queues
	leastIdleVisits = 1 << 6  // but at least this
)

// A shard with at most fewQueues queues keeps all of them warm: visiting so few queues
// costs less than telling warm from cold.
const fewQueues = 8

// These constants say how many cold records a step polls. Every step polls at least
// patrolPolls, so each of n records is polled within n/patrolPolls steps. A long step polls
// one record for each patrolCycles cycles that the step takes, but at most patrolMostPolls.
// That costs a few percent of the step's time. After patrolQuiet steps without work, each
// step polls enough records to poll all of them within another patrolQuiet steps.
const (
	patrolPolls     = 4
	patrolCycles    = 256
	patrolMostPolls = 1024
	patrolQuiet     = 256

	// patrolQuietPolls bounds a step without work, which warm queues and requests wait for, to
	// some 20 us, even if each record is a cache miss of 80 ns. More than 65,536 queues need
	// more than patrolQuiet steps.
	patrolQuietPolls = 256
)

// A watch holds what patrol needs to know about a cold queue pair. Besides the watch, patrol
// reads only one cache line for the queue pair: the cache line of the send record.
type watch struct {
	rec  *shm.BE32 // send record; nil: the queue is warm
	q    *qp
	num  uint32 // number of q
	word uint64 // value of the record when q was last found to have no work; or unknownWord
}

// unknownWord is the watch.word of a queue that can get work while its send record stays as
// it is. No record has this value, so patrol examines the queue each time.
const unknownWord = 1 << 32

// addRunning adds q to its shard's running queues. If the shard has few running queues, q is
// warm from now on. addRunning also makes room in every list to which a step appends, so that
// no step allocates.
func (sh *shard) addRunning(q *qp) {
	own := q.client.shard
	s := &q.client.sched
	q.sched.at, q.sched.watch = int32(len(own.running)), int32(len(s.watches))
	own.running = append(own.running, q)
	s.watches = append(s.watches, watch{rec: q.sq.record, q: q, num: q.num, word: unknownWord})
	own.sched.watchers.add(q.client)
	s.stalled = slices.Grow(s.stalled, len(s.watches)-len(s.stalled))
	q.client.sched.warm = slices.Grow(q.client.sched.warm, len(q.client.qps)-len(q.client.sched.warm))
	own.sched.active = slices.Grow(own.sched.active, max(len(own.clients)-len(own.sched.active), 0))
	if own.several {
		own.postponed = slices.Grow(own.postponed, len(own.running))
		own.visiting = slices.Grow(own.visiting, len(own.running))
	}
	if len(own.running) <= own.sched.few {
		own.markWarm(q)
	}
}

// isRunning reports whether q is among the running queues of this shard. A queue in RST
// is not.
func (sh *shard) isRunning(q *qp) bool {
	return int(q.sched.at) < len(sh.running) && sh.running[q.sched.at] == q
}

// removeRunning removes q from the running queues and moves the last running queue to the
// place of q. Patrol goes from the last queue to the first, so it does not miss the queue
// that was moved.
func (sh *shard) removeRunning(q *qp) {
	own := q.client.shard
	if !own.isRunning(q) {
		return
	}
	own.unmarkWarm(q)
	s := &q.client.sched
	end := len(s.watches) - 1
	s.watches[q.sched.watch] = s.watches[end]
	s.watches[q.sched.watch].q.sched.watch = q.sched.watch
	s.watches[end], s.watches = watch{}, s.watches[:end]
	if end == 0 {
		own.sched.watchers.remove(q.client)
	}
	last := len(own.running) - 1
	own.running[q.sched.at] = own.running[last]
	own.running[q.sched.at].sched.at = q.sched.at
	own.running[last], own.running = nil, own.running[:last]
	if own.sched.unswept > 0 {
		own.sched.unswept = last // sweep (overrun.go) may not have checked the moved queue yet
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
	q.sched.warm = int32(len(c.sched.warm))
	c.sched.watches[q.sched.watch].rec = nil
	if !c.sched.active {
		c.sched.active = true
		own.sched.active = append(own.sched.active, c)
	}
	own.countWarm(1)
}

// unmarkWarm removes q from its client's warm list and moves the last queue of the list to
// the place of q. If q was next to be visited, the moved queue is visited next.
func (sh *shard) unmarkWarm(q *qp) {
	if q.sched.warm == 0 {
		return
	}
	c, at := q.client, int(q.sched.warm)-1
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

// countWarm changes the number of warm queues by more, which can be negative, and sets the
// patience accordingly.
func (sh *shard) countWarm(more int) {
	sh.sched.warm += more
	sh.sched.patience = uint32(max(mostIdleVisits/max(sh.sched.warm, 1), leastIdleVisits))
}

// coolDown makes q cold, unless q has work after all.
//
// coolDown reads the record before hasWork reads it. Work that is announced between the two
// reads changes the record from the value in the watch, and patrol notices the change.
func (sh *threadLoop) coolDown(q *qp) {
	word := uint64(q.sq.record.Observe())
	if sh.hasWork(q) {
		q.sched.idleVisits = 0
		return
	}
	if q.flushes() {
		word = unknownWord
	}
	sh.unmarkWarm(q)
	w := &q.client.sched.watches[q.sched.watch]
	w.rec, w.word = q.sq.record, word
}

// flushes reports whether q is in a state in which its WQEs, and perhaps its receives, are
// flushed.
func (q *qp) flushes() bool {
	return q.attr.State == control.StateERR || q.attr.State == control.StateSQE
}

// hasWork reports whether a visit to q would find work. A stalled queue has no work until
// its stall ends, even if WQEs are announced.
func (sh *threadLoop) hasWork(q *qp) bool {
	if w := q.wire; w != nil && (!q.flushes() || w.in.owes()) {
		return sh.wireHasWork(q)
	}
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

// visitClients gives each client that has warm queues its turn. If a fault of memory ends
// the turn of a client, the next step continues with the client after it.
func (sh *threadLoop) visitClients() (done int) {
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

// visitClient visits warm queues of c one after another, until each has been visited or the
// budget of c in this step is used up.
func (sh *threadLoop) visitClient(c *client) (done int) {
	visits, wqes, bytes := aloneVisits, sh.sched.alone.wqes, sh.sched.alone.bytes
	if int32(sh.sched.rivalsUntil-sh.sched.turn) > 0 {
		visits, wqes, bytes = rivalVisits, sh.cfg.burst, sh.cfg.slice
	}
	for visits = min(visits, len(c.sched.warm)); visits > 0 && c.sched.next < len(c.sched.warm); visits-- {
		q := c.sched.warm[c.sched.next]
		if c.sched.next++; c.sched.next == len(c.sched.warm) {
			c.sched.next = 0 // set before the visit, so a queue that turns warm in the visit comes after the others
		}
		sh.sched.spent = 0
		n := sh.visit(q)
		if n == 0 {
			if q.sched.idleVisits++; (q.sched.idleVisits >= sh.sched.patience || q.stall.kind != noStall) && len(sh.running) > sh.sched.few {
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

// patrol polls the records of the next cold queues and marks the queues that have work
// warm. It returns how many queues it has marked. Clients take turns.
func (sh *threadLoop) patrol(polls int) (found int) {
	sh.fault.part = cutLast
	for polls = min(polls, len(sh.running)); polls > 0; {
		s := &sh.sched.watchers.current().sched
		n := sh.sched.watchers.use(turnOf(len(s.watches), patrolPolls), polls)
		polls -= n
		for range n {
			if s.patrolled == 0 || s.patrolled > len(s.watches) {
				s.patrolled = len(s.watches)
			}
			s.patrolled--
			if w := &s.watches[s.patrolled]; w.rec != nil {
				found += sh.pollWatch(w)
			}
		}
	}
	sh.fault.qp = nil
	sh.fault.part = cutVisits
	return found
}

// pollWatch polls the record of the cold queue of w, and returns 1 if it has marked the queue
// warm, otherwise 0.
func (sh *threadLoop) pollWatch(w *watch) int {
	if sh.timedUntil != 0 {
		sh.timePoll()
	}
	sh.fault.qp = w.q // this queue owns the record, so a fault of memory is an error of this queue
	sh.at.Publish(uint64(w.num))
	if word := uint64(w.rec.Observe()); word != w.word {
		return sh.examine(w, word)
	}
	return 0
}

// patrolMany polls the records of the next patrolMostPolls cold queues, and the ports that are
// not hot.
func (sh *threadLoop) patrolMany() (found int) {
	sh.acquire()
	if sh.sched.warm < len(sh.running) {
		found = sh.patrol(patrolMostPolls)
	}
	found += sh.serveColdPorts()
	sh.release()
	return found
}

// examine marks the cold queue of w warm if it has work, and returns how many queues it
// marked. Otherwise it stores word in w. word is the value of the queue's record.
func (sh *threadLoop) examine(w *watch, word uint64) int {
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

// patrolBudget returns how many cold queues this step polls. The length of this step is
// known if this step and the step before both had work, because steps that have work read
// the clock.
func (sh *threadLoop) patrolBudget(done int) int {
	polls := patrolPolls
	switch {
	case done == 0:
		if sh.sched.quiet++; sh.sched.quiet > patrolQuiet {
			polls += min(len(sh.running)/patrolQuiet, patrolQuietPolls)
		}
		return polls
	case sh.sched.quiet == 0 && sh.ticks != 0 && sh.sched.worked != 0 && sh.hooks.heldClock == 0:
		polls = int(min(max((sh.ticks-sh.sched.worked)/patrolCycles, patrolPolls), patrolMostPolls))
	}
	sh.sched.quiet, sh.sched.worked = 0, sh.ticks
	return polls
}
