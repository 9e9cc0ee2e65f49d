//go:build linux && (amd64 || arm64)

package loop

import (
	"time"

	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
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

// One look polls at most LookPolls records, arm words and stalled queues, or SoonPolls of them if
// the nap after it lasts only NapTime. If each is a cache miss of 80 ns, the looks take a tenth to
// a quarter of the time; they seldom are. A look also ends after lookTime, because the first access
// to a page takes longer, and memory that waits for its owner much longer.
const (
	LookPolls = 2048
	SoonPolls = 256
	LookTurn  = 16 // the least turn of a client that has so much left
	lookTime  = 200 * time.Microsecond
)

// BeginPass begins a new pass.
func (sh *Loop) BeginPass() { sh.Pass = object.Pass{Number: sh.Pass.Number + 1, Deadline: ^uint64(0)} }

// passEnded reports whether the pass has looked at everything of all clients.
func (sh *Loop) passEnded() bool { return sh.Pass.Finished == len(sh.Everyone.Clients) }

// A lookResult is what a look has found.
type lookResult struct {
	Done  int    // how much there was to do; 1 if a fault of memory has ended the look early
	Ended bool   // the pass has ended; the next look begins a new one
	Next  uint64 // cycles until the first timer runs out, as far as the pass has found timers
}

// Look looks for work once, and executes some of what it finds. It polls at most so many records,
// arm words and stalled queues of cold queues. long means that a long sleep follows, not a nap.
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
		sh.Clock() // timers are looked at, too
		n += sh.ServePorts(true)
	}
	if sh.Several {
		n += sh.visitPostponed(true)
	}
	f.Ended = sh.passEnded()
	now := clock.Now()
	first := min(sh.Pass.Deadline, sh.nextDeadline(now))
	f.Next = max(first, now) - now
	sh.Release()
	f.Done = n
	return f
}

// continuePass gives clients turns in the pass until work is found, the pass is over, or the look
// has polled or lasted enough. It returns how much there was to do.
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
		turn := min(polls,
			max(LookTurn, (len(c.Sched.Watches)+len(c.Sched.Stalled)+len(c.Arms.CQs))/object.TurnShare))
		left := turn
		done += sh.passQueues(c, &left)
		if done == 0 {
			done += sh.passStalled(c, &left)
		}
		if done == 0 {
			done += sh.passArms(c, &left)
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

// passQueues looks at the next queue pairs of c in the pass, at most *left of them, and counts *left
// down.
func (sh *Loop) passQueues(c *object.Client, left *int) (done int) {
	p := &c.Pass
	sh.Fault.Part = object.CutLast
	for *left > 0 && done == 0 {
		if p.Queues = min(p.Queues, len(c.Sched.Watches)); p.Queues == 0 {
			break
		}
		*left--
		p.Queues--
		w := &c.Sched.Watches[p.Queues]
		if w.Rec != nil {
			done += sh.pollWatch(w)
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

// passStalled tries the next stalled queues of c in the pass.
func (sh *Loop) passStalled(c *object.Client, left *int) (done int) {
	p := &c.Pass
	sh.Fault.Part = object.CutRetry
	for *left > 0 && done < completion.ArmAnswers {
		if p.Stalled = min(p.Stalled, len(c.Sched.Stalled)); p.Stalled == 0 {
			break
		}
		*left--
		p.Stalled--
		q := c.Sched.Stalled[p.Stalled]
		if sh.Try(q) {
			done++
		} else if s := &q.Stall; !s.Forever {
			sh.Pass.Deadline = min(sh.Pass.Deadline, s.Deadline)
		}
	}
	sh.Fault.QP = nil
	sh.Fault.Part = object.CutVisits
	return done
}

// passArms reads the next arm words of c in the pass, and looks at events that wait.
func (sh *Loop) passArms(c *object.Client, left *int) (done int) {
	p := &c.Pass
	sh.Fault.Part = object.CutLast
	for *left > 0 && done < completion.ArmAnswers {
		if p.Arms = min(p.Arms, len(c.Arms.CQs)); p.Arms == 0 {
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

// nextDeadline returns the earliest deadline of a queue pair of this shard, or the largest number.
func (sh *Loop) nextDeadline(now uint64) uint64 {
	next := ^uint64(0)
	if sh.Timers.Armed == 0 {
		return next
	}
	left := LookPolls
	for i := range uint64(object.WheelBuckets) {
		for t := sh.Timers.Buckets[(sh.Timers.Tick+1+i)%object.WheelBuckets]; t != nil; t = t.Next {
			if t.Deadline != 0 {
				next = min(next, t.Deadline)
			}
			if left--; left == 0 {
				return min(next, now+clock.Cycles(passNap))
			}
		}
	}
	return next
}
