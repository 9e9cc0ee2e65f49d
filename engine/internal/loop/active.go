//go:build linux && (amd64 || arm64)

package loop

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/control"
)

const (
	aloneVisits  = 64   // the most visits in a turn of a client while no other client has work
	RivalVisits  = 16   // the most visits in a turn while several clients have work
	RivalryTurns = 1024 // for this many steps after a client has worked, it counts as a client that has work
)

// These constants say how many cold records a step polls. Every step polls at least
// PatrolPolls records, so each of n records is polled within n/PatrolPolls steps. A long step polls
// one record for each patrolCycles cycles that the step takes, but at most patrolMostPolls records.
// These polls cost a few percent of the step's time. After PatrolQuiet steps without work, each
// step polls enough records to poll all of them within another PatrolQuiet steps.
const (
	PatrolPolls     = 4
	patrolCycles    = 256
	patrolMostPolls = 1024
	PatrolQuiet     = 256

	// patrolQuietPolls is the most records that a step without work polls. It bounds such a step to some
	// 20 us, even if each record is a cache miss of 80 ns, because warm queues and requests wait for the end
	// of the step. More than 65,536 queues need more than PatrolQuiet steps.
	patrolQuietPolls = 256

	// patrolPortion is how many queues are polled before their registers are counted: the turn of a client
	// with 1024 queues.
	patrolPortion = 16
)

// coolDown makes q cold, unless q has work after all.
//
// coolDown reads the record before HasWork reads it. Work that is announced between the two
// reads changes the record from the value in the watch, and patrol notices the change.
func (sh *Loop) coolDown(q *object.QP) {
	word := uint64(q.SQ.Record.Observe())
	if sh.HasWork(q) {
		q.Sched.IdleVisits = 0
		return
	}
	if q.Flushes() || q.Source != nil {
		word = object.UnknownWord
	}
	sh.UnmarkWarm(q)
	w := &q.Client.Sched.Watches[q.Sched.WatchIndex]
	w.Rec, w.Word = q.SQ.Record, word
}

// HasWork reports whether a visit to q would find work. A stalled queue has no work until
// its stall ends, even if WQEs are announced.
func (sh *Loop) HasWork(q *object.QP) bool {
	if q.Source != nil {
		sh.Sched.Polls += report.SourcePolls + sh.Admit(q, 1) // the next WQE is work
	}
	if f := q.Faults; f != nil && f.Bell != nil && q.Attr.State == control.StateRTS {
		return sh.rungHasWork(q)
	}
	return sh.ownWork(q)
}

// ownWork is HasWork, by the send record that q has.
func (sh *Loop) ownWork(q *object.QP) bool {
	if w := q.Wire; w != nil && (!q.Flushes() || w.In.HasDue()) {
		return sh.WireHasWork(q)
	}
	switch q.Attr.State {
	case control.StateRTS:
		return q.Stall.Kind == object.NoStall && (q.Job != nil || sh.Pending(q) > 0)
	case control.StateSQD:
		return q.Job != nil
	case control.StateSQE:
		return sh.Pending(q) > 0
	case control.StateERR:
		return sh.Pending(q) > 0 || q.RQ.SRQ == nil && q.Posted() > 0
	}
	return false
}

// visitClients gives each client that has warm queues its turn. If a fault of memory ends
// the turn of a client, the next step continues with the client after it.
func (sh *Loop) visitClients() (done int) {
	for sh.Sched.From < len(sh.Sched.Active) {
		c := sh.Sched.Active[sh.Sched.From]
		sh.Sched.From++
		done += sh.visitClient(c)
		if len(c.Sched.Warm) == 0 {
			sh.Sched.From--
			last := len(sh.Sched.Active) - 1
			sh.Sched.Active[sh.Sched.From], sh.Sched.Active[last] = sh.Sched.Active[last], nil
			sh.Sched.Active = sh.Sched.Active[:last]
			c.Sched.Active = false
		}
	}
	sh.Sched.From = 0
	return done
}

// visitClient visits warm queues of c one after another, until each has been visited or the
// budget of c in this step is used up.
func (sh *Loop) visitClient(c *object.Client) (done int) {
	visits, wqes, bytes := aloneVisits, sh.Sched.Alone.WQEs, sh.Sched.Alone.Bytes
	if int32(sh.Sched.RivalsUntil-sh.Sched.Turn) > 0 {
		visits, wqes, bytes = RivalVisits, sh.Settings.Burst, sh.Settings.Slice
	}
	for visits = min(visits, len(c.Sched.Warm)); visits > 0 && c.Sched.Next < len(c.Sched.Warm); visits-- {
		q := c.Sched.Warm[c.Sched.Next]
		c.Sched.Next++
		if c.Sched.Next == len(c.Sched.Warm) {
			// This is done before the visit, so that a queue that turns warm in the visit comes after the
			// others.
			c.Sched.Next = 0
		}
		if len(c.Sched.Warm) >= manyWarm {
			prefetchVisit(c.Sched.Warm, c.Sched.Next)
		}
		sh.Sched.Spent = 0
		n := sh.Visit(q)
		bytes -= sh.Sched.Spent
		if n == 0 {
			q.Sched.IdleVisits++
			idle := q.Sched.IdleVisits >= sh.Sched.Patience || q.Stall.Kind != object.NoStall
			if idle && len(sh.Running) > sh.Sched.Few {
				sh.coolDown(q)
			}
			if bytes <= 0 {
				break
			}
			continue
		}
		sh.Visited(q)
		q.Sched.IdleVisits = 0
		done += n
		if done >= wqes || bytes <= 0 {
			break
		}
	}
	if done > 0 {
		if sh.Sched.LastWorker != c {
			if sh.Sched.LastWorker != nil && sh.Sched.Turn-sh.Sched.LastWorked < RivalryTurns {
				sh.Sched.RivalsUntil = sh.Sched.Turn + RivalryTurns
			}
			sh.Sched.LastWorker = c
		}
		sh.Sched.LastWorked = sh.Sched.Turn
	}
	return done
}

// patrol polls the records of the next cold queues and marks the queues that have work
// warm. It returns how many queues it has marked. Clients take turns. A queue with registers counts as
// several polls, but PatrolPolls queues are polled in any case.
func (sh *Loop) patrol(polls int) (found int) {
	sh.Fault.Part = object.CutLast
	polls = min(polls, len(sh.Running))
	for least := min(polls, PatrolPolls); polls > 0 || least > 0; {
		s := &sh.Sched.Watchers.Current().Sched
		turn := object.TurnOf(len(s.Watches), PatrolPolls)
		n := sh.Sched.Watchers.Use(turn, min(max(polls, least), patrolPortion))
		polls, least = polls-n, least-n
		sh.Sched.Polls = 0
		for range n {
			if s.Patrolled == 0 || s.Patrolled > len(s.Watches) {
				s.Patrolled = len(s.Watches)
			}
			s.Patrolled--
			if w := &s.Watches[s.Patrolled]; w.Rec != nil {
				found += sh.pollWatch(w)
			}
		}
		polls -= sh.Sched.Polls
	}
	sh.Fault.QP = nil
	sh.Fault.Part = object.CutVisits
	return found
}

// pollWatch polls the record of the cold queue of w, and returns 1 if it has marked the queue
// warm, otherwise 0.
func (sh *Loop) pollWatch(w *object.Watch) int {
	if sh.TimedUntil != 0 {
		sh.TimePoll()
	}
	sh.Fault.QP = w.Q // this queue owns the record, so a fault of memory is an error of this queue
	sh.Touched.Publish(uint64(w.Num))
	if word := uint64(w.Rec.Observe()); word != w.Word {
		return sh.examine(w, word)
	}
	return 0
}

// PatrolMany polls the records of the next patrolMostPolls cold queues, and the ports that are
// not hot.
func (sh *Loop) PatrolMany() (found int) {
	sh.Acquire()
	if sh.Sched.Warm < len(sh.Running) {
		found = sh.patrol(patrolMostPolls)
	}
	found += sh.ServeColdPorts()
	sh.Release()
	return found
}

// examine marks the cold queue of w warm if it has work, and returns how many queues it
// marked. Otherwise it stores word in w. word is the value of the queue's record.
func (sh *Loop) examine(w *object.Watch, word uint64) int {
	if sh.HasWork(w.Q) {
		sh.MarkWarm(w.Q)
		return 1
	}
	if w.Q.Flushes() || w.Q.Source != nil {
		word = object.UnknownWord
	}
	w.Word = word
	return 0
}

// patrolBudget returns how many cold queues this step polls. done is how much work the step has found. The
// length of the step is known if this step and the step before it had work, because steps that have work read
// the clock.
func (sh *Loop) patrolBudget(done int) int {
	polls := PatrolPolls
	switch {
	case done == 0:
		sh.Sched.Quiet++
		if sh.Sched.Quiet > PatrolQuiet {
			polls += min(len(sh.Running)/PatrolQuiet, patrolQuietPolls)
		}
		return polls
	case sh.Sched.Quiet == 0 && sh.StepClock != 0 && sh.Sched.Worked != 0 && sh.Hooks.HeldClock == 0:
		polls = int(min(max((sh.StepClock-sh.Sched.Worked)/patrolCycles, PatrolPolls), patrolMostPolls))
	}
	sh.Sched.Quiet, sh.Sched.Worked = 0, sh.StepClock
	return polls
}
