//go:build linux && (amd64 || arm64)

package report

import (
	"log/slog"
	"math"
	"time"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/usage"
	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

// Memory of a client can delay the thread that touches it: a page may have to be fetched or
// cleared, or a process may be punching a hole there. All clients wait meanwhile. So the
// shard reads the device clock at the beginning and the end of each visit that finds work,
// and at the end of each batch of steps. If the time between two of these readings is
// longer than SlowTime, package usage finds out whether memory or the scheduler was the cause, and
// delay.go explains a delay by memory. See docs/design/0019.

const (
	// SlowTime is the longest time that a visit, or all polls together between two visits, may
	// take.
	SlowTime = time.Millisecond

	// SlowRequest is how long a request may take. It is longer than SlowTime because requests
	// also touch new memory of the engine, whose page faults the kernel counts in the same way.
	SlowRequest = 10 * time.Millisecond

	// timedTime is for how long each poll is timed separately, after several polls together have
	// taken too long and the device does not know which of them was slow.
	timedTime = 10 * time.Second
)

// Enter records that memory of q is about to be touched.
func (sh *Reporter) Enter(q *object.QP) {
	sh.Fault.QP = q
	sh.Touched.Publish(uint64(q.Num))
}

// EnterCQ records that memory of q is about to be touched.
func (sh *Reporter) EnterCQ(q *object.CQ) {
	sh.Fault.CQ = q
	sh.Touched.Publish(uint64(q.Num) | object.TouchedCQ)
}

// Started begins the measurement of a visit to q that has found work in its record.
func (sh *Reporter) Started(q *object.QP) {
	now := clock.Now()
	if now-sh.Mark.Observe() > sh.Bound {
		sh.slowPolls(now)
	}
	sh.StepClock, sh.First = now, q.SQ.Done
}

// Visited ends the measurement of a visit to q that did something.
func (sh *Reporter) Visited(q *object.QP) {
	if sh.Bound == math.MaxUint64 {
		return // nothing is measured: see Measure
	}
	now := clock.Now()
	if began := max(sh.StepClock, sh.Mark.Observe()); now-began > sh.Bound {
		if sh.working() {
			sh.slowVisit(q, now)
		} else {
			sh.slowPolls(now)
		}
	}
	sh.Mark.Publish(now)
}

// working reports whether a visit has found work and has not ended yet.
func (sh *Reporter) working() bool { return sh.StepClock > sh.Mark.Observe() }

// Measure begins to measure the calling thread, which runs the shard. Unmeasure ends this.
func (sh *Reporter) Measure() {
	sh.Thread.Publish(uint64(unix.Gettid()))
	sh.Mark.Publish(clock.Now())
	sh.Usage.Begin(sh.Mark.Observe())
	sh.Bound = clock.Cycles(SlowTime)
}

func (sh *Reporter) Unmeasure() {
	sh.Bound = math.MaxUint64
	sh.Busy.Publish(0)
	sh.Thread.Publish(0)
	sh.Usage.End()
}

// Restart begins to measure again after the thread has done something that is not measured.
func (sh *Reporter) Restart() {
	now := clock.Now()
	if sh.Usage.Exclude(now-sh.Mark.Observe()) > sh.Bound {
		sh.Usage.Sample(now, true) // waits of the thread while it was not measured do not count
	}
	sh.Mark.Publish(now)
	sh.Busy.Publish(1)
}

// Passed ends the measurement since the last mark, and returns the device clock.
func (sh *Reporter) Passed() (now uint64) {
	now = clock.Now()
	sh.Busy.Publish(0)
	if sh.Several && !sh.Acquired { // requests and other shards may be touching this shard
		sh.Ticket.Lock()
		sh.Acquired = true
		defer sh.Release()
	}
	sh.passedAt(now)
	return now
}

// passedAt does what Passed does after taking the lock. now is the device clock as the caller has
// read it, and may be earlier than the last mark.
func (sh *Reporter) passedAt(now uint64) {
	if now-sh.Mark.Observe() > sh.Bound && int64(now-sh.Mark.Observe()) > 0 {
		if sh.working() && sh.Fault.QP != nil {
			sh.slowVisit(sh.Fault.QP, now) // a fault of memory has cut the visit off
		} else {
			sh.slowPolls(now)
		}
	}
	sh.Mark.Publish(now)
}

// TimePoll ends the measurement of one poll, while each poll is timed separately.
func (sh *Reporter) TimePoll() {
	now := clock.Now()
	if now-sh.Mark.Observe() > sh.Bound {
		sh.slowPolls(now)
	}
	sh.Mark.Publish(now)
	if now > sh.TimedUntil {
		sh.TimedUntil = 0
	}
}

// delayByMemory reports whether memory of clients delayed the shard between since and now.
// It returns false during a request, because Client.do measures requests, perhaps on
// another thread.
func (sh *Reporter) delayByMemory(since, now uint64) (usage.Delay, bool) {
	if sh.Stopped || sh.Bound == math.MaxUint64 {
		return usage.Delay{}, false
	}
	return sh.Usage.Check(since, now, SlowTime)
}

// slowVisit explains a visit to q that took too long, if memory was the cause.
func (sh *Reporter) slowVisit(q *object.QP, now uint64) {
	if h, ok := sh.delayByMemory(sh.StepClock, now); ok {
		sh.explainDelay(q, h)
	}
}

// slowPolls explains polls that took too long, if memory was the cause. It knows which poll
// took too long only if polls are timed separately, or if the shard has only one queue to
// poll. From now on, for timedTime, polls are timed separately.
func (sh *Reporter) slowPolls(now uint64) {
	h, ok := sh.delayByMemory(sh.Mark.Observe(), now)
	if !ok || !sh.PollsForeignMemory() {
		return
	}
	at := sh.Touched.Observe()
	q, c := sh.QPs[uint32(at)], sh.CQs[uint32(at)]
	pollKnown := sh.TimedUntil != 0 || len(sh.Running)+sh.Arm.CQs == 1
	sh.TimedUntil = now + clock.Cycles(timedTime)
	switch {
	case pollKnown && at&object.TouchedCQ != 0 && c != nil:
		sh.explainCQDelay(c, h)
	case pollKnown && at&object.TouchedCQ == 0 && q != nil:
		sh.First = q.SQ.Done
		sh.explainDelay(q, h)
	default:
		sh.Journal.Log(slog.LevelWarn, "the engine's thread was held up at doorbell records or arm words of some client; "+
			"if it happens again, the client is named", h.Attrs()...)
	}
}
