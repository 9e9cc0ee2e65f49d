//go:build linux && (amd64 || arm64)

package execution

import (
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// wait stalls q, so that its next WQE waits. If the WQE waits for a receive, timer is the
// code of the responder's min_rnr_timer. If no RNR retry is left, wait fails the WQE.
func (sh *queues) wait(q *object.QP, kind object.StallKind, timer uint8) object.Verdict {
	if sh.Trial {
		return object.Waiting
	}
	s := object.Stall{Kind: kind, Since: sh.Now()}
	switch kind {
	case object.NoPeer:
		// After the first try there are retry_cnt more. Each try takes 4.096 us << timeout.
		s.Left = q.Attr.RetryCount
		s.Interval = clock.Cycles(4096 * time.Nanosecond << q.Attr.Timeout)
		s.Forever = q.Attr.Timeout == 0
	case object.NotReady:
		s.Left = q.Attr.RNRRetry
		s.Forever = s.Left == rnrForever
		s.Interval = clock.Cycles(packet.RNRTimer(timer))
		waitedBefore := q.RNRIndex == q.SQ.Done+1
		if !s.Forever && waitedBefore {
			s.Left = q.RNRLeft // another queue took the receive that this WQE waited for
		}
		if s.Left == 0 {
			return sh.failRetries(q, kind)
		}
		s.Left-- // counts the retry that will follow this wait
		traffic.Waits(q)
		if q.Transport == control.QPTypeXRC {
			q.XRC.Awaits = sh.Scratch.Job.SRQ
		}
	}
	s.Deadline = s.Since + s.Interval
	sh.StallFor(q, s)
	return object.Waiting
}

// rnrForever is the rnr_retry that stands for retries without end.
const rnrForever = 7

// RetriesPerStep is how many stalled queues one step tries. Clients take turns, and so do the
// stalled queues of each client. So thousands of stalled queues slow the working queues down no more than
// RetriesPerStep stalled queues would, but each stalled queue is tried some microseconds late. A timer wheel
// would find expired timers without trying. But a queue may go on as soon as its reason to wait is gone, and
// only a try shows whether the reason is gone.
const RetriesPerStep = 8

// Retry tries the next stalled queues, and returns how many of their stalls have ended.
// A try can shorten the list by more than one: if a queue gives up and its completion queue overruns,
// other queues leave the list, too.
func (sh *queues) Retry() (done int) {
	for tries := min(RetriesPerStep, sh.Stalled); tries > 0 && sh.Stalled > 0; {
		s := &sh.Stallers.Current().Sched
		n := sh.Stallers.Use(object.TurnOf(len(s.Stalled), 1), tries)
		tries -= n
		for ; n > 0 && len(s.Stalled) > 0; n-- {
			s.Retried--
			if s.Retried < 0 || s.Retried >= len(s.Stalled) {
				s.Retried = len(s.Stalled) - 1
			}
			if sh.Try(s.Stalled[s.Retried]) {
				done++
			}
		}
	}
	sh.Fault.QP = nil // set by Try
	return done
}

// Try tries a stalled queue, and reports whether its stall has ended.
func (sh *queues) Try(q *object.QP) bool {
	if sh.TimedUntil != 0 {
		sh.TimePoll()
	}
	sh.Enter(q)
	s := &q.Stall
	if sh.Several && WaitsForPeer(q) {
		// If the peer is in another shard, q is tried in a visit that also holds the lock of that shard.
		if m := sh.ShardOfPeer(q); m != nil {
			if now := sh.Clock(); now >= s.Again {
				s.Again = now + clock.Cycles(object.CrossPause)
				sh.Postpone(q, m)
			}
			return false
		}
	}
	switch {
	case sh.cleared(q):
		// There is a receive, but another queue may take it first. Then the retries count on; see wait.
		if s.Kind == object.NotReady && q.Reaches(q.Conn.Peer) {
			q.RNRIndex, q.RNRLeft = q.SQ.Done+1, s.Left
		}
		sh.Unstall(q)
		return true
	case s.Kind == object.Held, s.Kind == object.Kept:
		return false
	case s.Forever:
		sh.explainWait(q)
		return false
	case sh.Now() < s.Deadline:
		return false
	case s.Left == 0:
		traffic.Retry(q, true)
		sh.failWaiting(q, s.Kind)
		return true
	}
	traffic.Retry(q, false)
	s.Left--
	s.Deadline += s.Interval
	return false
}

// WaitsForPeer reports whether the end of q's stall depends on the peer.
func WaitsForPeer(q *object.QP) bool {
	return q.Stall.Kind == object.NoPeer || q.Stall.Kind == object.NotReady
}

// cleared reports whether the reason of the stall is gone or has changed. Then the WQE is checked again.
func (sh *queues) cleared(q *object.QP) bool {
	switch q.Stall.Kind {
	case object.BehindCQ:
		return q.Stall.CQ.Gone || q.Stall.CQ.Reached(q.Stall.Index)
	case object.Kept:
		return sh.Now() >= q.Stall.Deadline
	case object.Held:
		over := !q.Stall.Forever && sh.Now() >= q.Stall.Deadline
		if f := q.Faults; f != nil && f.Bell != nil && f.Bell.Holds {
			return over || f.Bell.Changed(q.SQ.Record.Observe())
		}
		return over || q.Faults == nil || !q.Faults.Pauses()
	}
	if !q.Reaches(q.Conn.Peer) {
		if q.Stall.Kind == object.NotReady {
			return true // the peer is gone: the next check of the WQE stalls q for NoPeer
		}
		return sh.find(q)
	}
	if q.Stall.Kind == object.NotReady && q.XRC != nil {
		return q.XRC.Awaits.Gone || q.XRC.Awaits.Ready() > 0
	}
	return q.Stall.Kind == object.NoPeer || q.Conn.Peer.Posted() > 0
}

// explainWait explains, once, that a queue pair waits for its peer and will wait for ever.
// A programmer who forgot to post receives would see no other sign of the wait.
func (sh *queues) explainWait(q *object.QP) {
	s := &q.Stall
	if q.Suspicion.Waits || s.Kind == object.BehindCQ ||
		sh.Now()-s.Since < clock.Cycles(report.SuspicionTime) {
		return
	}
	q.Suspicion.Waits = true
	if s.Kind == object.NotReady {
		sh.ExplainQueue(q, codes.ReceiveNone, "peer QP %#06x has no receive posted; the send waits (rnr_retry 7: for ever)", q.PeerNumber())
		return
	}
	why := sh.WhyNoPeer(q)
	sh.ExplainQueue(q, why.Code, "%s; the work request waits (timeout 0: for ever)", why)
}

// failWaiting fails the WQE at the head of a stalled queue.
func (sh *queues) failWaiting(q *object.QP, kind object.StallKind) {
	sh.Unstall(q)
	if sh.SnapshotHead(q) {
		sh.failRetries(q, kind)
	}
}

// failRetries fails the WQE in the scratch job, because its retries have run out.
func (sh *queues) failRetries(q *object.QP, kind object.StallKind) object.Verdict {
	if kind == object.NotReady {
		sh.Explain(q, codes.ReceiveNone, "peer QP %#06x has no receive posted; gave up after rnr_retry %d. "+
			"Post receives first, or set rnr_retry to 7 (for ever)", q.PeerNumber(), q.Attr.RNRRetry)
		return sh.Fail(q, sh.Scratch.Job, cqe.RNRRetry)
	}
	why := sh.WhyNoPeer(q)
	sh.Explain(q, why.Code, "%s; gave up after retry_cnt %d", why, q.Attr.RetryCount)
	return sh.Fail(q, sh.Scratch.Job, cqe.TransportRetry)
}
