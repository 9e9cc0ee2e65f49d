//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// A stall says why the next WQE of a queue waits. It also counts and times the tries. A
// requester on a wire sends again each time the timer runs out. Without a wire the device
// sees at once when the reason is gone, and the timer only counts the tries.
type stall struct {
	kind     stallKind
	left     uint8  // remaining tries
	forever  bool   // tries are not counted
	index    uint32 // if kind is behindCQ: the producer index that cq must reach
	since    uint64 // device clock when the wait began
	interval uint64 // time between tries, in cycles
	deadline uint64 // end of this try, on the device clock
	cq       *cq    // if kind is behindCQ: the completion queue whose producer index must reach index
	again    uint64 // device clock at which a peer in another shard is tried again
	srq      *srq   // if kind is notReady, on XRC: the XSRQ that has no receive
	at       int32  // index of the queue in client.sched.stalled
}

type stallKind uint8

const (
	noStall  stallKind = iota
	noPeer             // transport retry: the peer is absent, not ready, or connected to another QP
	notReady           // RNR retry: the peer has no receive posted
	behindCQ           // WAIT: a completion queue has not reached an index
)

// wait stalls q, so that its next WQE waits. If the WQE waits for a receive, timer is the
// code of the responder's min_rnr_timer. If no try is left, the WQE fails.
func (sh *queues) wait(q *qp, kind stallKind, timer uint8) verdict {
	s := stall{kind: kind, since: sh.now()}
	switch kind {
	case noPeer:
		// There is a first try, and then there are retry_cnt more. Each takes 4.096 us << timeout.
		s.left = q.attr.RetryCount
		s.interval = clock.Cycles(4096 * time.Nanosecond << q.attr.Timeout)
		s.forever = q.attr.Timeout == 0
	case notReady:
		s.left = q.attr.RNRRetry
		s.forever = s.left == 7
		s.interval = clock.Cycles(packet.RNRTimer(timer))
		if !s.forever && q.rnrIndex == q.sq.done+1 {
			s.left = q.rnrLeft // another queue took the receive that this WQE waited for
		}
		if s.left == 0 {
			return sh.failRetries(q, kind)
		}
		s.left-- // counts the retry that will follow this wait
		if q.transport == control.QPTypeXRC {
			s.srq = sh.scratch.job.srq
		}
	}
	s.deadline = s.since + s.interval
	sh.stallFor(q, s)
	return waiting
}

// stallFor puts q on the list of stalled queues.
func (sh *queues) stallFor(q *qp, s stall) {
	c := q.client
	s.at = int32(len(c.sched.stalled))
	q.stall = s
	c.sched.stalled = append(c.sched.stalled, q)
	c.shard.stalled++
	c.shard.stallers.add(c)
}

// unstall ends the stall of q, if q has one. The last queue of the list takes the place of
// q.
func (sh *queues) unstall(q *qp) {
	if q.stall.kind == noStall {
		return
	}
	c := q.client
	last := len(c.sched.stalled) - 1
	other := c.sched.stalled[last]
	c.sched.stalled[q.stall.at], other.stall.at = other, q.stall.at
	c.sched.stalled[last], c.sched.stalled = nil, c.sched.stalled[:last]
	if c.shard.stalled--; last == 0 {
		c.shard.stallers.remove(c)
	}
	q.stall = stall{}
	sh.markWarm(q)
}

// retriesPerStep is how many stalled queues one step tries. Clients take turns, and so do the
// stalled queues of each client. So thousands of them slow the working queues down no more than retriesPerStep of them would,
// and each is tried some microseconds late. A timer wheel would find expired timers without
// trying. But a queue may go on as soon as its reason to wait is gone, and only a try shows
// that.
const retriesPerStep = 8

// retry tries the next stalled queues, and returns how many of their stalls have ended.
// When a queue gives up and its completion queue overruns, other queues may leave the list.
func (sh *queues) retry() (done int) {
	for tries := min(retriesPerStep, sh.stalled); tries > 0 && sh.stalled > 0; {
		s := &sh.stallers.current().sched
		n := sh.stallers.use(turnOf(len(s.stalled), 1), tries)
		tries -= n
		for ; n > 0 && len(s.stalled) > 0; n-- {
			if s.retried--; s.retried < 0 || s.retried >= len(s.stalled) {
				s.retried = len(s.stalled) - 1
			}
			if sh.try(s.stalled[s.retried]) {
				done++
			}
		}
	}
	sh.fault.qp = nil
	return done
}

// try tries a stalled queue, and reports whether its stall has ended.
func (sh *queues) try(q *qp) bool {
	if sh.timedUntil != 0 {
		sh.timePoll()
	}
	sh.enter(q)
	s := &q.stall
	if sh.several && s.kind != behindCQ {
		if m := sh.shardOfPeer(q); m != nil {
			if now := sh.clock(); now >= s.again {
				s.again = now + clock.Cycles(crossPause)
				sh.postpone(q, m)
			}
			return false
		}
	}
	switch {
	case sh.cleared(q):
		if s.kind == notReady && q.reaches(q.conn.peer) { // there is a receive, but another queue may take it
			q.rnrIndex, q.rnrLeft = q.sq.done+1, s.left
		}
		sh.unstall(q)
		return true
	case s.forever:
		sh.explainWait(q)
		return false
	case sh.now() < s.deadline:
		return false
	case s.left == 0:
		sh.failWaiting(q, s.kind)
		return true
	}
	s.left--
	s.deadline += s.interval
	return false
}

// cleared reports whether the reason of the stall is gone or has changed.
func (sh *queues) cleared(q *qp) bool {
	if q.stall.kind == behindCQ {
		return q.stall.cq.gone || q.stall.cq.reached(q.stall.index)
	}
	if !q.reaches(q.conn.peer) {
		if q.stall.kind == notReady {
			return true // the WQE is judged again, and then stalls for noPeer
		}
		return sh.find(q)
	}
	if s := q.stall.srq; s != nil {
		return s.gone || s.ready() > 0
	}
	return q.stall.kind == noPeer || q.conn.peer.posted() > 0
}

// explainWait explains, once, that a queue pair waits for its peer and will wait for ever.
// Nothing else would tell a programmer who forgot to post receives.
func (sh *queues) explainWait(q *qp) {
	s := &q.stall
	if q.suspicion.waits || s.kind == behindCQ || sh.now()-s.since < clock.Cycles(suspicionTime) {
		return
	}
	q.suspicion.waits = true
	if s.kind == notReady {
		sh.explainQueue(q, codes.ReceiveNone, "peer QP %#06x has no receive posted; the send waits (rnr_retry 7: for ever)", q.peerNumber())
		return
	}
	why := sh.whyNoPeer(q)
	sh.explainQueue(q, why.code, "%s; the work request waits (timeout 0: for ever)", why)
}

// failWaiting fails the WQE at the head of a stalled queue.
func (sh *queues) failWaiting(q *qp, kind stallKind) {
	sh.unstall(q)
	if sh.snapshotHead(q) {
		sh.failRetries(q, kind)
	}
}

// failRetries fails the WQE of the snapshot, because its retries have run out.
func (sh *queues) failRetries(q *qp, kind stallKind) verdict {
	if kind == notReady {
		sh.explain(q, codes.ReceiveNone, "peer QP %#06x has no receive posted; gave up after rnr_retry %d. "+
			"Post receives first, or set rnr_retry to 7 (for ever)", q.peerNumber(), q.attr.RNRRetry)
		return sh.fail(q, sh.scratch.job, cqe.RNRRetry)
	}
	why := sh.whyNoPeer(q)
	sh.explain(q, why.code, "%s; gave up after retry_cnt %d", why, q.attr.RetryCount)
	return sh.fail(q, sh.scratch.job, cqe.TransportRetry)
}
