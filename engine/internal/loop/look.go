//go:build linux && (amd64 || arm64)

package loop

import (
	"time"

	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/wheel"
	"github.com/nicless/nicless/internal/clock"
)

// Before a shard naps or sleeps, it looks for work: it visits warm queues as a step does, polls the
// arm registers and the ports, and continues a pass. A pass is a round through all places in which work can
// be announced: the send records of all queue pairs, the arm words of all CQs that can be
// armed, and all stalled queues. Clients can have hundreds of thousands of such places, so one look is
// bounded, and the next look continues the pass. In a pass clients take turns, so that a client
// with few queues does not wait for the queues of a client with many.
//
// A pass that began after the shard had published that it sleeps, and after the barrier, finds
// all work announced before the barrier. So the shard sleeps long only after such a pass has
// ended. Until then it takes naps between its looks.

// One look polls at most LookPolls records, arm words and stalled queues, or SoonPolls of them if
// the nap after the look lasts only NapTime. If each poll were a cache miss of 80 ns, the looks would take a
// tenth to a quarter of the time; few polls are. A look also ends after lookTime, because the first access
// to a page takes longer, and an access to memory that waits for its owner takes much longer.
const (
	LookPolls = 2048
	SoonPolls = 256
	LookTurn  = 16 // the fewest polls in a turn of a client, unless the client or the look has fewer left
	lookTime  = 200 * time.Microsecond
)

// BeginPass begins a new pass.
func (sh *Loop) BeginPass() { sh.Pass = object.Pass{Number: sh.Pass.Number + 1, Deadline: ^uint64(0)} }

// passEnded reports whether the pass has looked at everything of all clients.
func (sh *Loop) passEnded() bool { return sh.Pass.Finished == len(sh.Everyone.Clients) }

// A lookResult is what a look has found.
type lookResult struct {
	Done  int  // how much there was to do; 1 if a fault of memory has ended the look early
	Ended bool // the pass has ended, and the next look begins a new pass
	// Next is in how many cycles the first timer runs out, of those that the pass has found so far; the
	// largest number if it has found none.
	Next uint64
}

// Look looks for work once, and executes some of the work that it finds. polls is the most records, arm words
// and stalled queues that its part of the pass polls. long means that a long sleep follows, not a nap.
func (sh *Loop) Look(polls int, long bool) (f lookResult) {
	f.Done = 1 // the result if a fault of memory ends this function early
	defer sh.RecoverFault()
	defer sh.Passed()
	sh.Acquire()
	sh.Restart()
	if sh.passEnded() {
		sh.BeginPass()
	}
	sh.StepClock = 0
	sh.RingFull = false
	n := sh.Sched.Unswept + sh.visitClients()
	sh.Fault.QP = nil
	sh.Fault.Part = object.CutLast
	n += sh.ObserveArms(polls)
	sh.Fault.Part = object.CutVisits
	if n == 0 {
		n = sh.continuePass(polls)
	}
	sh.Fault.Part = object.CutLast
	looks := 1
	if long {
		looks = diagnosesPerSleep
	}
	for range looks {
		sh.Diagnose()
	}
	sh.Fault.Part = object.CutVisits
	if len(sh.Ports)+sh.Timers.Armed > 0 {
		sh.Clock() // reads the clock, so that ServePorts looks at the timers
		n += sh.ServePorts(true)
	}
	if sh.Several {
		n += sh.visitPostponed(true)
	}
	f.Ended = sh.passEnded()
	now := sh.Hooks.Hold(clock.Now())
	first := min(sh.Pass.Deadline, sh.nextDeadline(now))
	if sh.Number == 0 && sh.r.Plan.Next != 0 {
		first = min(first, sh.r.Plan.Next)
	}
	f.Next = ^uint64(0)
	if first != f.Next {
		f.Next = max(first, now) - now
	}
	due := sh.planIsDue()
	sh.Release()
	if due {
		n += sh.keepPlan()
	}
	f.Done = n + len(sh.Commands) // the next step carries the commands out
	return f
}

// continuePass gives clients turns in the pass. It ends when work is found, the pass is over, polls are used
// up, or lookTime has passed. It returns how much there was to do.
func (sh *Loop) continuePass(polls int) (done int) {
	end := clock.Now() + clock.Cycles(lookTime)
	for !sh.passEnded() && polls > 0 && done == 0 {
		c := sh.Everyone.Current()
		sh.Everyone.Use(1, 1)
		p := &c.Pass
		polls-- // for the client itself
		if p.Number != sh.Pass.Number {
			*p = object.ClientPass{Number: sh.Pass.Number, Queues: len(c.Sched.Watches),
				Stalled: len(c.Sched.Stalled), Arms: len(c.Arms.CQs)}
		}
		if p.Finished {
			continue
		}
		done += sendLateOf(&sh.Shard, c)
		sh.Pass.Deadline = min(sh.Pass.Deadline, lateUntil(c))
		places := len(c.Sched.Watches) + len(c.Sched.Stalled) + len(c.Arms.CQs)
		turn := min(polls, max(LookTurn, places/object.TurnShare))
		left := turn
		done += sh.lookAtQueues(c, &left)
		if done == 0 {
			done += sh.lookAtStalled(c, &left)
		}
		if done == 0 {
			done += sh.lookAtArms(c, &left)
		}
		polls -= turn - left
		if p.Queues+p.Stalled+p.Arms == 0 {
			p.Finished = true
			sh.Pass.Finished++
		}
		if clock.Now() > end {
			break
		}
	}
	return done
}

// lookAtQueues looks at the next queue pairs of c in the pass, at most *left of them, and counts *left
// down. It returns how much there was to do.
func (sh *Loop) lookAtQueues(c *object.Client, left *int) (done int) {
	p := &c.Pass
	sh.Fault.Part = object.CutLast
	for *left > 0 && done == 0 {
		p.Queues = min(p.Queues, len(c.Sched.Watches))
		if p.Queues == 0 {
			break
		}
		*left--
		p.Queues--
		w := &c.Sched.Watches[p.Queues]
		if w.Rec != nil {
			sh.Sched.Polls = 0
			done += sh.pollWatch(w)
			*left -= sh.Sched.Polls
			continue
		}
		q := w.Q
		if q.SQ.BlueFlame != nil {
			q.SQ.BlueFlame.Hot = 0 // so that the visit reads the record too
		}
		if n := sh.Visit(q); n > 0 {
			sh.Visited(q)
			done += n
			sh.MarkWarm(q)
		}
	}
	sh.Fault.QP = nil
	sh.Fault.Part = object.CutVisits
	return done
}

// lookAtStalled is lookAtQueues for stalled queues: it tries each.
func (sh *Loop) lookAtStalled(c *object.Client, left *int) (done int) {
	p := &c.Pass
	sh.Fault.Part = object.CutRetry
	for *left > 0 && done < completion.ArmRoundAnswers {
		p.Stalled = min(p.Stalled, len(c.Sched.Stalled))
		if p.Stalled == 0 {
			break
		}
		*left--
		p.Stalled--
		q := c.Sched.Stalled[p.Stalled]
		if sh.Try(q) {
			done++
		} else {
			noteDeadline(&sh.Pass, q)
		}
	}
	sh.Fault.QP = nil
	sh.Fault.Part = object.CutVisits
	return done
}

// lookAtArms is lookAtQueues for CQs that can be armed: it reads the arm word of each, and sends the CQ's
// event if it has been held back long enough.
func (sh *Loop) lookAtArms(c *object.Client, left *int) (done int) {
	p := &c.Pass
	sh.Fault.Part = object.CutLast
	for *left > 0 && done < completion.ArmRoundAnswers {
		p.Arms = min(p.Arms, len(c.Arms.CQs))
		if p.Arms == 0 {
			break
		}
		*left--
		p.Arms--
		q := c.Arms.CQs[p.Arms]
		sh.PollCQ(q)
		done += sh.ObserveArm(q) + sh.ObserveHeld(q)
		sh.Pass.Deadline = min(sh.Pass.Deadline, q.HeldUntil())
	}
	sh.Fault.CQ = nil
	sh.Fault.Part = object.CutVisits
	return done
}

// nextDeadline returns the earliest deadline of a timer of this shard's wires: the largest number if no timer
// runs. If there are very many timers, it returns a time at which it should be called again.
func (sh *Loop) nextDeadline(now uint64) uint64 {
	next := ^uint64(0)
	if sh.Timers.Armed == 0 {
		return next
	}
	left := LookPolls
	for i := range uint64(wheel.Buckets) {
		for t := sh.Timers.Buckets[(sh.Timers.Tick+1+i)%wheel.Buckets]; t != nil; t = t.Next {
			if t.Deadline != 0 {
				next = min(next, t.Deadline)
			}
			left--
			if left == 0 {
				return min(next, now+clock.Cycles(passNap))
			}
		}
	}
	return next
}

// noteDeadline notes in the pass when the stalled queue q is to be tried again.
func noteDeadline(p *object.Pass, q *object.QP) {
	if !q.Stall.Forever {
		p.Deadline = min(p.Deadline, q.Stall.Deadline)
	}
}
