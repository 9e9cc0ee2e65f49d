package engine

import (
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/clock"
)

// A stall is why a queue waits for its peer, and until when. A wire would try
// again each time the timer runs out; without one the device sees at once when
// the reason is gone, and the timer only counts the tries.
type stall struct {
	kind     stallKind
	since    uint64 // device clock
	left     uint8  // tries that remain
	forever  bool   // tries are not counted
	interval uint64 // between tries, in cycles
	deadline uint64 // of this try, on the device clock
	cq       *cq    // behindCQ: what is waited for
	index    uint32
	at       int    // of lane.stalled
	again    uint64 // device clock when a peer in another lane is looked at again
}

type stallKind uint8

const (
	noStall  stallKind = iota
	noPeer             // the peer is absent, not ready, or connected to another: transport retry
	notReady           // the peer has no receive posted: RNR retry
	behindCQ           // a WAIT: a completion queue has not come to an index
)

// wait lets the next WQE of q wait. It returns false, for its callers to hand on.
func (e *lane) wait(q *qp, kind stallKind) bool {
	s := stall{kind: kind, since: e.clock()}
	switch kind {
	case noPeer:
		// The first try and retry_cnt more, each of 4.096 us << timeout.
		s.left = q.attr.RetryCount
		s.interval = clock.Cycles(4096 * time.Nanosecond << q.attr.Timeout)
		s.forever = q.attr.Timeout == 0
	case notReady:
		s.left = q.attr.RNRRetry
		s.forever = s.left == 7
		s.interval = clock.Cycles(rnrTimer(q.peer.attr.MinRNRTimer))
		if !s.forever && q.retried == q.sent+1 {
			s.left = q.retriesLeft // somebody else took the receive that was waited for
		}
		if s.left == 0 {
			e.surrender(q, kind)
			return false
		}
		s.left-- // this wait is the next retry's
	}
	s.deadline = s.since + s.interval
	e.stallFor(q, s)
	return false
}

// stallFor has q wait.
func (e *lane) stallFor(q *qp, s stall) {
	e = q.client.lane
	s.at = len(e.stalled)
	q.stall = s
	e.stalled = append(e.stalled, q)
}

// unstall ends the waiting of q, if it waits. The last that waits takes its place.
func (e *lane) unstall(q *qp) {
	if q.stall.kind == noStall {
		return
	}
	own := q.client.lane
	last := len(own.stalled) - 1
	other := own.stalled[last]
	own.stalled[q.stall.at], other.stall.at = other, q.stall.at
	own.stalled[last], own.stalled = nil, own.stalled[:last]
	q.stall = stall{}
	e.warm(q)
}

// retryLooks is at how many of the queues that wait a step looks. They take
// turns, so that thousands of them cost those that work no more than these do,
// and each is looked at some microseconds late. A timer wheel would know when a
// time runs out without looking; but a queue goes on as soon as its reason to
// wait is gone, and for that it must be looked at in any case.
const retryLooks = 8

// retry looks at the next of the queues that wait, and returns how many go on.
// One that gives up can take others off the list, when its completion queue
// overruns.
func (e *lane) retry() (done int) {
	for range min(retryLooks, len(e.stalled)) {
		if len(e.stalled) == 0 {
			break
		}
		if e.next--; e.next < 0 || e.next >= len(e.stalled) {
			e.next = len(e.stalled) - 1
		}
		if e.try(e.stalled[e.next]) {
			done++
		}
	}
	e.cur = nil
	return done
}

// try looks at a queue that waits, and reports whether it waits no more.
func (e *lane) try(q *qp) bool {
	if e.near != 0 {
		e.glance()
	}
	e.enter(q)
	s := &q.stall
	if e.several && s.kind != behindCQ {
		if m := e.across(q); m != nil {
			if now := e.clock(); now >= s.again {
				s.again = now + clock.Cycles(crossPause)
				e.putOff(q, m)
			}
			return false
		}
	}
	switch {
	case e.cleared(q):
		if s.kind == notReady && q.connected(q.peer) { // there is a receive, for now
			q.retried, q.retriesLeft = q.sent+1, s.left
		}
		e.unstall(q)
		return true
	case s.forever:
		e.sayWaits(q)
		return false
	case e.clock() < s.deadline:
		return false
	case s.left == 0:
		e.giveUp(q, s.kind)
		return true
	}
	s.left--
	s.deadline += s.interval
	return false
}

// cleared reports whether the reason to wait is gone or has become another one.
func (e *lane) cleared(q *qp) bool {
	if q.stall.kind == behindCQ {
		return q.stall.cq.gone || q.stall.cq.reached(q.stall.index)
	}
	if !q.connected(q.peer) {
		if q.stall.kind == notReady {
			return true // then the next judgement waits for another reason
		}
		return e.find(q)
	}
	return q.stall.kind == noPeer || q.peer.posted() > 0
}

// sayWaits says once of a queue pair that it waits for its peer, and will for
// ever: nothing else would tell those who forgot the receives.
func (e *lane) sayWaits(q *qp) {
	s := &q.stall
	if q.odd.waits || s.kind == behindCQ || e.clock()-s.since < clock.Cycles(oddTime) {
		return
	}
	q.odd.waits = true
	if s.kind == notReady {
		e.explainQueue(q, codeReceiveNone, "peer QP %#06x has no receive posted; the send waits (rnr_retry 7: for ever)", q.attr.DestQPN)
		return
	}
	why := e.whyNoPeer(q)
	e.explainQueue(q, why.code, "%s; the work request waits (timeout 0: for ever)", why)
}

// giveUp fails the WQE that q has been waiting with.
func (e *lane) giveUp(q *qp, kind stallKind) {
	e.unstall(q)
	if e.snapshotHead(q) {
		e.surrender(q, kind)
	}
}

// surrender fails the WQE of the snapshot: what it needs does not come.
func (e *lane) surrender(q *qp, kind stallKind) {
	if kind == notReady {
		e.explain(q, codeReceiveNone, "peer QP %#06x has no receive posted; gave up after rnr_retry %d. "+
			"Post receives first, or set rnr_retry to 7 (for ever)", q.attr.DestQPN, q.attr.RNRRetry)
		e.fail(q, e.now, cqe.RNRRetry)
		return
	}
	why := e.whyNoPeer(q)
	e.explain(q, why.code, "%s; gave up after retry_cnt %d", why, q.attr.RetryCount)
	e.fail(q, e.now, cqe.TransportRetry)
}

// rnrTimer is the time that the code of min_rnr_timer stands for (InfiniBand
// Architecture Specification, table 45).
func rnrTimer(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&31]) * 10 * time.Microsecond
}

var rnrTimers = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}
