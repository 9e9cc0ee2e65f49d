//go:build linux && (amd64 || arm64)

package loop

import (
	"math"
	"runtime/debug"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// While the device's thread sleeps, goroutines of the program that embeds the device may run its steps: the
// poster of a queue pair visits that queue, and one that waits for a completion looks at the whole device.
// The thread lends the shard (idler.sleep), and gets it back by StopCallers, for which it waits for one turn
// of a borrower. A turn is bounded. If a turn leaves work, or something that is due before the thread wakes
// by itself, it wakes the thread. See docs/design/0094-steps-on-the-posters-core.md.

// lentVisits is how many visits to its queue a turn of a poster makes, and lentLooks how many looks a turn
// makes. A visit executes at most Burst WQEs or moves a slice, some microseconds. The thread does the rest.
const (
	lentVisits = 4
	lentLooks  = 8

	// lentQueues is how many queue pairs a turn looks at at most. Reading the records of so many takes a few
	// microseconds, as a wakeup of the thread does; with more, the thread looks.
	lentQueues = 64
)

// Lend implements nic.Lender for c.
func (r *Runner) Lend(c *object.Client) *nic.Steps {
	if !r.lends() {
		return nil
	}
	r.Do(func() { c.Wake.Steps = true })
	sh := turns{r.Loops[0]}
	return &nic.Steps{Look: sh.turnForLook,
		Shared: func() bool { return sh.turnAfterReceive(nil) },
		Receives: func(qpn uint32) func() bool {
			return func() bool { return sh.turnAfterReceive(func() *object.QP { return c.QPs[qpn] }) }
		},
		Sends: func(qpn uint32) func() bool {
			var q *object.QP // found in the first turn, because only a borrower may search
			return func() bool {
				if !sh.Mail.Borrow() {
					return false
				}
				if q == nil {
					q = c.QPs[qpn]
				}
				sh.turnOfPoster(q)
				return true
			}
		}}
}

// turnForLook implements nic.Steps.Look.
func (sh turns) turnForLook() bool {
	if !sh.Mail.Borrow() {
		return false
	}
	sh.turnEverywhere()
	return true
}

// lends reports whether the device can lend its shard: the steps of several shards need their own threads,
// and a thread that never sleeps has nothing to lend.
func (r *Runner) lends() bool { return len(r.Loops) == 1 && r.Settings.Idle == object.IdleNap }

// turns are what borrowers do with a shard.
type turns struct{ *Loop }

// A turn is what one borrower does, and what is to be restored after it.
type turn struct {
	panics bool   // whether faults of memory were panics on this goroutine
	bound  uint64 // Bound of the thread
	rest   bool   // the thread has to go on
}

// beginTurn begins a turn. Memory can fault on this goroutine as on the thread. Package usage measures only
// the thread, so nothing is measured.
func (sh turns) beginTurn() turn {
	t := turn{panics: debug.SetPanicOnFault(true), bound: sh.Bound, rest: true}
	sh.Bound = math.MaxUint64
	sh.StepClock = 0
	return t
}

// endTurn ends a turn, also after a fault of memory.
func (sh turns) endTurn(t *turn) {
	if sh.StepClock != 0 {
		sh.PublishAt(sh.StepClock)
	}
	sh.Bound = t.bound
	debug.SetPanicOnFault(t.panics)
	sh.Mail.Return(t.rest)
}

// turnOfPoster executes what is announced on q, which is nil if there is no such queue pair. In the usual
// case this is a visit to q, which neither wakes nor stalls other queues, and the look at the whole device is
// spared.
func (sh turns) turnOfPoster(q *object.QP) {
	t := sh.beginTurn()
	defer sh.endTurn(&t)
	defer sh.RecoverFault()
	if q == nil || !sh.IsRunning(q) {
		t.rest = false
		return
	}
	sh.MarkWarm(q)
	over, fast := false, false
	if sh.standsAlone(q) {
		if over, fast = sh.visitAlone(q); !over {
			return
		}
	}
	t.rest = (!fast || sh.waits()) && sh.lookAround()
}

// turnEverywhere looks for work everywhere.
func (sh turns) turnEverywhere() {
	t := sh.beginTurn()
	defer sh.endTurn(&t)
	defer sh.RecoverFault()
	t.rest = sh.lookAround()
}

// turnAfterReceive does what a receive that was posted allows: a send may wait for it, or its queue pair
// flushes it. find returns the queue pair, for a borrower; it is nil for a shared receive queue.
func (sh turns) turnAfterReceive(find func() *object.QP) bool {
	if !sh.Mail.Borrow() {
		return false
	}
	flushes := false
	if find != nil {
		q := find()
		flushes = q != nil && q.Flushes()
	}
	if flushes || sh.waits() || len(sh.Ports) > 0 {
		sh.turnEverywhere()
	} else {
		sh.Mail.Return(false)
	}
	return true
}

// standsAlone reports whether a visit is all that work of q needs: no carrier sends packets, nobody watches,
// and its record alone says what is announced.
func (sh turns) standsAlone(q *object.QP) bool {
	return q.Wire == nil && !q.Aside && q.Source == nil
}

// visitAlone visits q until it has no more work, or has been visited often enough. over reports that it has
// no more. fast reports that all of it was work of the fast path, which changes nothing of other queues than
// their receives and completions.
func (sh turns) visitAlone(q *object.QP) (over, fast bool) {
	slow := sh.Sched.Slow
	for range lentVisits {
		more := sh.Visit(q) > 0 && sh.HasWork(q)
		sh.Fault.QP = nil
		if !more {
			return true, slow == sh.Sched.Slow && q.Attr.State == control.StateRTS
		}
	}
	return false, false
}

// waits reports whether something of the device waits, perhaps for what a turn has done.
func (sh turns) waits() bool {
	n := sh.Stalled + sh.Arm.Held + len(sh.Arm.Late.Clients)
	return n+sh.Sched.Unswept+len(sh.Commands) > 0 || sh.Fault.Cut != object.Whole
}

// lookAround makes looks until there is nothing to do, and reports whether the thread has to go on, now or
// earlier than it would wake.
func (sh turns) lookAround() (rest bool) {
	if len(sh.Running) > lentQueues {
		return true
	}
	sh.BeginPass()
	for range lentLooks {
		f := sh.Look(LookPolls, false)
		switch {
		case f.Done > 0:
			sh.Step() // which does what a look leaves to the next step
			sh.BeginPass()
		case f.Ended:
			sh.Publish()
			due := clock.Now() + min(f.Next, math.MaxInt64)
			return sh.RingFull || due < sh.Mail.Until()
		}
	}
	return true
}
