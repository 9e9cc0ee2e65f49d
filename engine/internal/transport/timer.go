//go:build linux && (amd64 || arm64)

package transport

import (
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/wheel"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
)

// Of the steps that have not read the clock, one in TimerTurns looks at the timers.
const TimerTurns = 16

// ExpireTimers serves the timers whose deadlines have passed, and returns how many there were.
func (sh *wires) ExpireTimers(now uint64) (done int) {
	w := &sh.Timers
	if now < w.Due {
		return 0
	}
	tickNow := now / w.PerTick()
	w.Due = (tickNow + 1) * w.PerTick()
	if tickNow-w.Tick > wheel.Buckets {
		w.Tick = tickNow - wheel.Buckets // one round reaches every bucket
	}
	for w.Tick < tickNow {
		w.Tick++
		bucket := w.Tick % wheel.Buckets
		for t := w.Buckets[bucket]; t != nil; {
			following := t.Next
			switch {
			case t.Deadline == 0:
				w.Unlink(t)
			case t.Deadline <= now:
				w.Unlink(t)
				late := now - t.Deadline
				t.Deadline = 0
				done++
				sh.Enter(t.Of.Q)
				if t == &t.Of.Timer {
					t.Of.Absence.Late(late)
					sh.timedOut(t.Of.Q)
				} else {
					sh.leaveInTime(t.Of.Q)
				}
				if following != nil && (!following.Linked || following.Bucket != uint32(bucket)) {
					following = w.Buckets[bucket] // timedOut has disarmed or moved the next timer
				}
			case w.After(t.Deadline)%wheel.Buckets != uint64(t.Bucket):
				w.Unlink(t)
				w.Link(t, w.After(t.Deadline))
			}
			t = following
		}
	}
	return done
}

// startTimer starts the timer of w anew, because packets are on the way. A queue pair whose timeout is 0 has
// no timer.
func (sh *wires) startTimer(w *object.Wire) {
	if t := w.Q.Attr.Timeout; t != 0 {
		if w.Timeout != t {
			w.Timeout, w.Patience = t, clock.Cycles(4096*time.Nanosecond<<t)
		}
		w.Absence.Restart()
		now := sh.Now()
		deadline := now + w.Patience<<min(w.Out.Retries, execution.LongerTries)
		if s := w.Recovery; s != nil {
			s.Due = s.Last(now, deadline)
			deadline = s.Deadline(now)
		}
		sh.Timers.Arm(&w.Timer, now, deadline)
	}
}

// countTimeout counts that an answer has not come in time, or was lost.
func countTimeout(w *object.Wire) {
	w.Port.Stats.Timeouts++
	w.Losses.Timeouts++
}

// notReady serves an RNR NAK: it makes q wait before the oldest message is sent again, because the responder
// has no receive. While q waits, another RNR NAK is the answer to a packet that the link has repeated, and
// changes nothing.
func (sh *wires) notReady(q *object.QP, code uint8) {
	w := q.Wire
	r := &w.Out
	if r.First == r.Last || r.Paused {
		return
	}
	if most := q.Attr.RNRRetry; most != 7 {
		if r.RnrRetries >= most {
			sh.RewindQueue(q)
			if sh.SnapshotHead(q) {
				sh.Explain(q, codes.ReceiveNone, "peer QP %#06x on link %s has no receive posted; gave up after rnr_retry %d. "+
					"Post receives first, or set rnr_retry to 7 (for ever)", q.Attr.DestQPN, w.Port.Settings.Name, most)
				sh.Fail(q, sh.Scratch.Job, cqe.RNRRetry)
			}
			return
		}
		r.RnrRetries++
	}
	q.Client.Traffic.N[nic.RNRNaks]++
	sh.goBack(q)
	r.Paused = true
	now := sh.Now()
	sh.Timers.Arm(&w.Timer, now, now+clock.Cycles(packet.RNRTimer(code)))
}

// timedOut is called when q's timer has run out: an RNR wait is over, or no answer has come in time.
func (sh *wires) timedOut(q *object.QP) {
	w := q.Wire
	r := &w.Out
	if r.Paused {
		r.Paused = false
		if packet.DiffPSN(r.Next(), r.UNA) > 0 {
			sh.startTimer(w)
		}
		sh.MarkWarm(q)
		return
	}
	if r.First == r.Last || sh.excuses(q) {
		return
	}
	countTimeout(w)
	if w.Recovery != nil {
		sh.queryPeer(w.Port, w.Losses)
		if sh.probe(q) {
			return
		}
	}
	// During a scan the peer may have answered while the path was closed.
	answersDropped := w.Guard.Answers.Doubtful(sh.Now())
	if r.Retries >= q.Attr.RetryCount && !answersDropped {
		why := whyNoAnswer(q)
		sh.RewindQueue(q)
		if sh.SnapshotHead(q) {
			sh.Explain(q, why.Code, "%s; gave up after retry_cnt %d", why, q.Attr.RetryCount)
			sh.Fail(q, sh.Scratch.Job, cqe.TransportRetry)
		}
		return
	}
	if q.Faults != nil {
		q.Faults.MissedAnswer()
	}
	q.Client.Traffic.N[nic.AckTimeouts]++
	if !answersDropped {
		r.Retries++
	}
	r.Rewound = false
	r.Shrink()
	sh.goBack(q)
}
