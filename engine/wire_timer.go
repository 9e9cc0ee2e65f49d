//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/packet"
)

// The timers of queue pairs on wires. A requester that gets no answer in time sends again from
// the oldest packet that is not acknowledged. One that got an RNR NAK waits for the responder's
// timer. Both are one timer of the queue pair, which is on a wheel: the timers of a bucket run
// out in the same tick, perhaps some laps later.
//
// Each acknowledgement moves the deadline. That only stores the new deadline: the timer stays in
// its bucket, and is moved to the right one when the wheel gets there.

const (
	wheelBuckets = 1 << 10
	tickTime     = 16 * time.Microsecond
	timerTurns   = 16 // a step that has not read the clock looks at the wheel only in one of so many turns
)

// A timer is on a wheel or not. It is in a bucket as long as linked is true.
type timer struct {
	wire       *wire
	prev, next *timer
	deadline   uint64 // on the device clock; 0: it does not run
	placed     uint64 // the deadline for which its bucket was chosen
	bucket     uint32
	linked     bool
}

func (t *timer) running() bool { return t.deadline != 0 }

// stop stops a timer. It leaves its bucket later.
func (t *timer) stop() { t.deadline = 0 }

// A wheel has the timers of a shard.
type wheel struct {
	buckets [wheelBuckets]*timer
	tick    uint64 // number of the tick up to which all timers have run out
	due     uint64 // device clock at which the next tick begins; 0: not known
	armed   int    // number of timers in buckets
	cycles  uint64 // device clock cycles of a tick
}

// arm sets the deadline of a timer.
func (w *wheel) arm(t *timer, now, deadline uint64) {
	t.deadline = max(deadline, 1)
	if t.linked {
		if t.deadline < t.placed {
			w.move(t, w.after(t.deadline))
		}
		return
	}
	if w.armed == 0 {
		w.tick, w.due = now/w.perTick(), 0
	}
	w.link(t, w.after(t.deadline))
}

// after returns the number of the first tick that begins after a deadline.
func (w *wheel) after(deadline uint64) uint64 { return deadline/w.perTick() + 1 }

// move puts a timer into an earlier bucket, if its deadline comes before the bucket it is in.
func (w *wheel) move(t *timer, at uint64) {
	in := w.tick + 1 + (uint64(t.bucket)-w.tick-1)%wheelBuckets // when its bucket is looked at next
	if at < in {
		w.unlink(t)
		w.link(t, at)
	}
}

func (w *wheel) perTick() uint64 {
	if w.cycles == 0 {
		w.cycles = max(clock.Cycles(tickTime), 1)
	}
	return w.cycles
}

func (w *wheel) link(t *timer, at uint64) {
	t.bucket, t.placed = uint32(max(at, w.tick+1)%wheelBuckets), t.deadline
	head := &w.buckets[t.bucket]
	if t.next = *head; t.next != nil {
		t.next.prev = t
	}
	*head, t.prev, t.linked = t, nil, true
	w.armed++
}

func (w *wheel) unlink(t *timer) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		w.buckets[t.bucket] = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next, t.linked = nil, nil, false
	w.armed--
}

// disarm takes a timer off the wheel.
func (w *wheel) disarm(t *timer) {
	if t.deadline = 0; t.linked {
		w.unlink(t)
	}
}

// expireTimers lets the timers run out whose deadlines have passed, and returns how many did.
func (sh *wires) expireTimers(now uint64) (done int) {
	w := &sh.timers
	if now < w.due {
		return 0
	}
	at := now / w.perTick()
	w.due = (at + 1) * w.perTick()
	if at-w.tick > wheelBuckets {
		w.tick = at - wheelBuckets // one lap reaches every bucket
	}
	for w.tick < at {
		w.tick++
		for t := w.buckets[w.tick%wheelBuckets]; t != nil; {
			following := t.next
			switch {
			case t.deadline == 0:
				w.unlink(t)
			case t.deadline <= now:
				w.unlink(t)
				t.deadline = 0
				done++
				sh.enter(t.wire.q)
				sh.timedOut(t.wire.q)
				if following != nil && (!following.linked || following.bucket != uint32(w.tick%wheelBuckets)) {
					following = w.buckets[w.tick%wheelBuckets] // it was disarmed or moved
				}
			case w.after(t.deadline)%wheelBuckets != uint64(t.bucket):
				w.unlink(t)
				w.link(t, w.after(t.deadline))
			}
			t = following
		}
	}
	return done
}

// nextDeadline returns the earliest deadline of a queue pair of this shard, or the largest number.
func (sh *threadLoop) nextDeadline(now uint64) uint64 {
	next := ^uint64(0)
	if sh.timers.armed == 0 {
		return next
	}
	left := lookPolls
	for i := range uint64(wheelBuckets) {
		for t := sh.timers.buckets[(sh.timers.tick+1+i)%wheelBuckets]; t != nil; t = t.next {
			if t.deadline != 0 {
				next = min(next, t.deadline)
			}
			if left--; left == 0 {
				return min(next, now+clock.Cycles(passNap))
			}
		}
	}
	return next
}

// startTimer starts q's timer anew, because packets are on the way.
func (sh *wires) startTimer(w *wire) {
	if t := w.q.attr.Timeout; t != 0 {
		if w.timeout != t {
			w.timeout, w.patience = t, clock.Cycles(4096*time.Nanosecond<<t)
		}
		now := sh.now()
		sh.timers.arm(&w.timer, now, now+w.patience<<min(w.out.retries, longerTries))
	}
}

// longerTries makes the second try wait twice as long as the first, and all others four times: the InfiniBand
// specification (volume 1, 9.7.6.1.3) allows up to four times the timeout. The engine at the other end may
// have no core for a while, or may have to agree on keys first, and programs such as ibv_rc_pingpong give it eight
// tries of 67 ms: together 0.5 s if all were equal, and 1.8 s in this way. A single packet that is lost is sent
// again as soon as before.
const longerTries = 2

// notReady waits before the oldest message is sent again, because its responder has no receive. While it
// waits, another RNR NAK is the answer of a packet that the link has repeated, and counts for nothing.
func (sh *wires) notReady(q *qp, code uint8) {
	w := q.wire
	r := &w.out
	if r.first == r.last || r.paused {
		return
	}
	if most := q.attr.RNRRetry; most != 7 {
		if r.rnrRetries >= most {
			sh.rewindQueue(q)
			if sh.snapshotHead(q) {
				sh.explain(q, codes.ReceiveNone, "peer QP %#06x on link %s has no receive posted; gave up after rnr_retry %d. "+
					"Post receives first, or set rnr_retry to 7 (for ever)", q.attr.DestQPN, w.port.cfg.Name, most)
				sh.fail(q, sh.scratch.job, cqe.RNRRetry)
			}
			return
		}
		r.rnrRetries++
	}
	sh.goBack(q)
	r.paused = true
	now := sh.now()
	sh.timers.arm(&w.timer, now, now+clock.Cycles(packet.RNRTimer(code)))
}

// timedOut is called when q's timer has run out.
func (sh *wires) timedOut(q *qp) {
	w := q.wire
	r := &w.out
	if r.paused {
		r.paused = false
		if packet.DiffPSN(r.next(), r.una) > 0 {
			sh.startTimer(w)
		}
		sh.markWarm(q)
		return
	}
	if r.first == r.last {
		return
	}
	w.port.stats.Timeouts++
	deaf := w.guard.answers.Doubtful(sh.now()) // the peer may have answered, while the path was closed
	if r.retries >= q.attr.RetryCount && !deaf {
		why := q.whyNoAnswer()
		sh.rewindQueue(q)
		if sh.snapshotHead(q) {
			sh.explain(q, why.code, "%s; gave up after retry_cnt %d", why, q.attr.RetryCount)
			sh.fail(q, sh.scratch.job, cqe.TransportRetry)
		}
		return
	}
	if !deaf {
		r.retries++
	}
	r.rewound = false
	r.shrink()
	sh.goBack(q)
}
