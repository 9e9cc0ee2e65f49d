//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/outage"
	"github.com/nicless/nicless/engine/internal/report"
)

// Rules of faults on links. A queue pair with rules has one message on the way (InjectWire), so the rule that
// acts on the WQE decided last acts on that message.

// losesAnswer reports whether a packet that answers q is lost because of a rule. The timer of q runs out, and
// the packets that q then sends again get the answers of a responder that has executed the request.
func (sh *sender) losesAnswer(q *object.QP) bool {
	f, r := q.Faults, &q.Wire.Out
	if !f.LosesAnswer() || r.First == r.Last || !f.Decided(r.Oldest().Index) {
		return false
	}
	if !f.Began {
		f.Began = true
		sh.ExplainSent(q, r.Oldest().Index)
	}
	return true
}

// transferAnswer is Transfer for the answer to a READ or an atomic of q.
func (sh *sender) transferAnswer(q *object.QP, j *object.Job, n uint64) (ok bool) {
	if q.Faults == nil {
		return sh.Transfer(j, n)
	}
	sh.FlipMoved(q, j, func() { ok = sh.Transfer(j, n) })
	return ok
}

// whyNoAnswer returns why no answer has come to the oldest message of q.
func whyNoAnswer(q *object.QP) object.Reason {
	if f := q.Faults; f != nil && f.LosesAnswer() {
		return object.Because(codes.FaultInjected, "injected by rule %v", f.Rule)
	}
	if outage.Cut(q.Conn.Bound) {
		return report.WhyCut(q)
	}
	return q.WhyNoAnswer()
}
