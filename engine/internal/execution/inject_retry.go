//go:build linux && (amd64 || arm64)

package execution

import (
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// Requests and answers that are lost, and responders that are not ready. The requester waits, tries again and
// gives up as after the real fault, with its own counts and times. Within the device nothing is sent, so the
// WQE only waits; a real stall would end as soon as the responder is ready (stall.go), and this one does not.

// LongerTries makes the second try on a link wait twice as long as the first, and all later tries four times
// as long. The InfiniBand specification (volume 1, 9.7.6.1.3) allows up to four times the timeout. The engine
// at the other end may have no core for a while, or may have to agree on keys first. Programs such as
// ibv_rc_pingpong give it eight tries of 67 ms, which take 1.8 s in this way; if all were equally long, they
// would take 0.5 s. A single packet that is lost is sent again after the timeout, as if all tries were
// equally long.
const LongerTries = 2

// InjectRequest does what rules of faults say of the request of j, which the requester has checked and not
// sent yet. It returns Accepted if the request is to be sent now.
func (sh *injector) InjectRequest(q *object.QP, j *object.Job) object.Verdict {
	f := q.Faults
	if !f.Acts || f.Over || !f.Decided(q.SQ.Done) {
		return object.Accepted
	}
	r := f.Rule
	switch {
	case r.RNR != 0 && q.Reliable():
		timer, ok := sh.timerOfPeer(q)
		if !ok {
			return object.Accepted // the request waits for its peer
		}
		return sh.injectRNR(q, j, r.RNR, timer)
	case r.LoseRequest != 0 && q.Reliable():
		return sh.injectLoss(q, j, r.LoseRequest)
	case r.Disconnect && q.Wire != nil && q.Reliable():
		return sh.injectLoss(q, j, fault.All) // the peer of a queue pair in error hears nothing
	case r.RNR != 0, r.LoseRequest != 0, r.Disconnect && q.Wire != nil:
		f.Over = true
		sh.explainInjected(q)
		return sh.LoseMessage(j)
	case r.LoseAnswer != 0 && q.Wire == nil && j.Reads() && !j.Head.Opcode().Info().Atomic():
		return sh.injectLoss(q, j, r.LoseAnswer) // a READ changes nothing before its answer comes
	}
	return object.Accepted
}

// timerOfPeer returns the min_rnr_timer of q's peer. A peer on another device does not tell it, and q's own
// counts in place of it. ok is false if q has no peer that answers, or one whose lock is not held yet.
func (sh *injector) timerOfPeer(q *object.QP) (timer uint8, ok bool) {
	if q.Wire != nil {
		return q.Attr.MinRNRTimer, true
	}
	p := sh.answering(q)
	if p == nil {
		return 0, false
	}
	return p.Attr.MinRNRTimer, true
}

// answering returns the peer of q if it would answer a request now, and its lock is held; otherwise nil.
func (sh *injector) answering(q *object.QP) *object.QP {
	p := q.Conn.Peer
	if q.Transport == control.QPTypeDCI {
		p = sh.TargetOf(q)
	} else if p == nil || p.Dead {
		p = sh.BoundPeer(q)
	}
	if p == nil || !sh.Holds(p.Client.Shard) || !q.Reaches(p) {
		return nil
	}
	return p
}

// injectRNR makes the WQE of j wait as after an RNR NAK, n times.
func (sh *injector) injectRNR(q *object.QP, j *object.Job, n int, timer uint8) object.Verdict {
	f := q.Faults
	if v, again := sh.tryAgain(q); again {
		return v
	}
	if f.Tries == n {
		f.Over = true
		return object.Accepted
	}
	f.Tries++
	if most := q.Attr.RNRRetry; most != rnrForever && f.Tries > int(most) {
		sh.Explain(q, codes.FaultInjected, "injected by rule %v; gave up after rnr_retry %d", f.Rule, most)
		return sh.Fail(q, j, cqe.RNRRetry)
	}
	f.Until = sh.Now() + clock.Cycles(packet.RNRTimer(timer))
	return sh.hold(q)
}

// injectLoss makes the WQE of j wait as if no answer came, n times.
func (sh *injector) injectLoss(q *object.QP, j *object.Job, n fault.Count) object.Verdict {
	f := q.Faults
	if v, again := sh.tryAgain(q); again {
		return v
	}
	if most := q.Attr.RetryCount; f.Tries > int(most) {
		sh.Explain(q, codes.FaultInjected, "injected by rule %v; gave up after retry_cnt %d", f.Rule, most)
		return sh.Fail(q, j, cqe.TransportRetry)
	}
	if n != fault.All && f.Tries >= int(n) && (!f.Applied || sh.answering(q) != nil) {
		f.Over = true
		return object.Accepted
	}
	longer := 0
	if q.Wire != nil {
		longer = min(f.Tries, LongerTries)
	}
	f.Tries++
	f.Until = sh.Now() + clock.Cycles(4096*time.Nanosecond<<q.Attr.Timeout)<<longer
	if q.Attr.Timeout == 0 {
		f.Until = inject.Never
	}
	return sh.hold(q)
}

// tryAgain explains the first try of a WQE that does not get its answer. again is true if the wait after the
// last try goes on, because something else than its end has made q go on.
func (sh *injector) tryAgain(q *object.QP) (v object.Verdict, again bool) {
	f := q.Faults
	if f.Tries == 0 {
		sh.explainInjected(q)
		return object.Accepted, false
	}
	v = sh.hold(q)
	return v, v != object.Accepted
}

// delivered completes the receive of j, whose bytes have all been moved. It reports whether the responder has
// taken the message; if not, it does to q what the responder's answer says.
func (sh *Executor) delivered(q *object.QP, j *object.Job) bool {
	if a := sh.Deliver(q, j); a != object.AnswerACK {
		sh.answered(q, j, a)
		sh.EndJob(q)
		return false
	}
	j.Recv = false
	return true
}

// loseAnswer is called when the responder has executed the request of j, whose answer is lost. The job is
// kept without what could make q check and execute it again: only an atomic still needs memory,
// for its result.
func (sh *Executor) loseAnswer(q *object.QP, j *object.Job) {
	if q.Job == nil {
		sh.KeepJob(q)
	}
	if !j.Reads() {
		j.Src.Reset()
		j.Dst.Reset()
	}
	j.Peer, j.SRQ = nil, nil
	q.Faults.Applied = true
	sh.awaitAnswer(q)
}

// awaitAnswer goes on with the job of q, which the responder has executed: q waits until the answer comes,
// and then completes. It returns how much it has done.
func (sh *Executor) awaitAnswer(q *object.QP) (done int) {
	f, j := q.Faults, q.Job
	if q.Stall.Kind != object.NoStall {
		return 0 // in SQD, where q is visited because it has a job
	}
	if !f.Over {
		if v := sh.injectLoss(q, j, f.Rule.LoseAnswer); v != object.Accepted {
			return 1
		}
	}
	if !sh.KeysUnchanged(j) {
		sh.Explain(q, codes.KeyUnknown, "%v: the memory for its result has gone, or has changed, while its answer "+
			"was lost", j.Head.Opcode())
		sh.Fail(q, j, cqe.LocalProtection)
		return 1
	}
	if !j.Dst.Unmapped {
		sh.Move(q, j, Indivisible)
	} else if _, v := sh.moveUnmapped(q, j, Indivisible); v != object.Accepted {
		return 1
	}
	sh.Finish(q, j)
	sh.EndJob(q)
	return 1
}
