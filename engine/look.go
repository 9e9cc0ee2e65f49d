//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// Before a shard naps or sleeps it looks for work: it visits warm queues as a step does, polls the
// arm registers and the ports, and continues a pass. A pass is a round through all that work can
// be announced in: the send records of all queue pairs, the arm words of all CQs that can be
// armed, and all stalled queues. Clients can have hundreds of thousands of these, so one look is
// bounded, and the next look continues the pass. In a pass clients take turns, so that a client
// with few queues does not wait for those of a client with many.
//
// A pass that began after the shard had published that it sleeps, and after the barrier, finds
// what was announced before the barrier. So the shard sleeps long only after such a pass has
// ended. Until then it takes naps between its looks.

// One look polls at most lookPolls records, arm words and stalled queues, or soonPolls of them if
// the nap after it lasts only napTime. If each is a cache miss of 80 ns, the looks take a tenth to
// a quarter of the time; they seldom are. A look also ends after lookTime, because the first access
// to a page takes longer, and memory that waits for its owner much longer.
const (
	lookPolls = 2048
	soonPolls = 256
	lookTurn  = 16 // the least turn of a client that has so much left
	lookTime  = 200 * time.Microsecond
)

// A pass is a round through the queues of all clients of a shard.
type pass struct {
	number   uint64
	finished int    // number of clients of which nothing is left to look at
	deadline uint64 // first deadline, on the device clock, of the stalled queues and the held events looked at
}

// A clientPass says what of a client is left to look at in a pass. Each list is looked at from its
// last element to its first. If an element is removed, the last one takes its place; it has
// been looked at already, or is looked at later.
type clientPass struct {
	number                uint64 // of the pass; if it is another one, everything is left
	finished              bool   // nothing is left
	queues, stalled, arms int    // how many are left
}

// beginPass begins a new pass.
func (sh *threadLoop) beginPass() { sh.pass = pass{number: sh.pass.number + 1, deadline: ^uint64(0)} }

// passEnded reports whether the pass has looked at everything of all clients.
func (sh *threadLoop) passEnded() bool { return sh.pass.finished == len(sh.everyone.clients) }

// leave notes that c leaves the shard.
func (p *pass) leave(c *client) {
	if c.pass.finished && c.pass.number == p.number {
		p.finished--
	}
}

// A lookResult is what a look has found.
type lookResult struct {
	done  int    // how much there was to do; 1 if a fault of memory has ended the look early
	ended bool   // the pass has ended; the next look begins a new one
	next  uint64 // cycles until the first timer runs out, as far as the pass has found timers
}

// look looks for work once, and executes some of what it finds. It polls at most so many records,
// arm words and stalled queues of cold queues. long means that a long sleep follows, not a nap.
func (sh *threadLoop) look(polls int, long bool) (f lookResult) {
	f.done = 1 // the result if a fault of memory ends this function early
	defer sh.recoverFault()
	defer sh.passed()
	sh.acquire()
	sh.restart()
	if sh.passEnded() {
		sh.beginPass()
	}
	sh.ticks = 0
	sh.ringFull = false
	n := sh.sched.unswept + sh.visitClients()
	sh.fault.qp = nil
	sh.fault.part = cutLast
	n += sh.observeArms(polls)
	sh.fault.part = cutVisits
	if n == 0 {
		n = sh.continuePass(polls)
	}
	sh.fault.part = cutLast
	looks := 1
	if long {
		looks = diagnosesPerSleep
	}
	for range looks {
		sh.diagnose()
	}
	sh.fault.part = cutVisits
	if len(sh.ports)+sh.timers.armed > 0 {
		sh.clock() // timers are looked at, too
		n += sh.servePorts(true)
	}
	if sh.several {
		n += sh.visitPostponed(true)
	}
	f.ended = sh.passEnded()
	now := clock.Now()
	first := min(sh.pass.deadline, sh.nextDeadline(now))
	f.next = max(first, now) - now
	sh.release()
	f.done = n
	return f
}

// continuePass gives clients turns in the pass until something is found, nothing is left, or the
// look has polled or lasted enough. It returns how much there was to do.
func (sh *threadLoop) continuePass(polls int) (done int) {
	end := clock.Now() + clock.Cycles(lookTime)
	for !sh.passEnded() && polls > 0 && done == 0 {
		c := sh.everyone.current()
		sh.everyone.use(1, 1)
		p := &c.pass
		polls-- // for the client itself
		if p.number != sh.pass.number {
			*p = clientPass{sh.pass.number, false, len(c.sched.watches), len(c.sched.stalled), len(c.arms.cqs)}
		}
		if p.finished {
			continue
		}
		turn := min(polls, max(lookTurn, (len(c.sched.watches)+len(c.sched.stalled)+len(c.arms.cqs))/turnShare))
		left := turn
		done += sh.passQueues(c, &left)
		if done == 0 {
			done += sh.passStalled(c, &left)
		}
		if done == 0 {
			done += sh.passArms(c, &left)
		}
		polls -= turn - left
		if p.queues+p.stalled+p.arms == 0 {
			p.finished = true
			sh.pass.finished++
		}
		if clock.Now() > end {
			break
		}
	}
	return done
}

// passQueues looks at the next queue pairs of c in the pass, at most *left of them, and counts *left
// down.
func (sh *threadLoop) passQueues(c *client, left *int) (done int) {
	p := &c.pass
	sh.fault.part = cutLast
	for *left > 0 && done == 0 {
		if p.queues = min(p.queues, len(c.sched.watches)); p.queues == 0 {
			break
		}
		*left--
		p.queues--
		w := &c.sched.watches[p.queues]
		if w.rec != nil {
			done += sh.pollWatch(w)
			continue
		}
		q := w.q
		if q.sq.blueFlame != nil {
			q.sq.blueFlame.hot = 0 // so that the visit reads the record too
		}
		if n := sh.visit(q); n > 0 {
			sh.visited(q)
			done += n
			sh.markWarm(q)
		}
	}
	sh.fault.qp = nil
	sh.fault.part = cutVisits
	return done
}

// passStalled tries the next stalled queues of c in the pass.
func (sh *threadLoop) passStalled(c *client, left *int) (done int) {
	p := &c.pass
	sh.fault.part = cutRetry
	for *left > 0 && done < armAnswers {
		if p.stalled = min(p.stalled, len(c.sched.stalled)); p.stalled == 0 {
			break
		}
		*left--
		p.stalled--
		q := c.sched.stalled[p.stalled]
		if sh.try(q) {
			done++
		} else if s := &q.stall; !s.forever {
			sh.pass.deadline = min(sh.pass.deadline, s.deadline)
		}
	}
	sh.fault.qp = nil
	sh.fault.part = cutVisits
	return done
}

// passArms reads the next arm words of c in the pass, and looks at events that wait.
func (sh *threadLoop) passArms(c *client, left *int) (done int) {
	p := &c.pass
	sh.fault.part = cutLast
	for *left > 0 && done < armAnswers {
		if p.arms = min(p.arms, len(c.arms.cqs)); p.arms == 0 {
			break
		}
		*left--
		p.arms--
		q := c.arms.cqs[p.arms]
		sh.pollCQ(q)
		done += sh.observeArm(q) + sh.observeHeld(q)
		sh.pass.deadline = min(sh.pass.deadline, q.heldUntil())
	}
	sh.fault.cq = nil
	sh.fault.part = cutVisits
	return done
}
