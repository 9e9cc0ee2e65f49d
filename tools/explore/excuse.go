//go:build linux && (amd64 || arm64)

package explore

import (
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/wqe"
)

// fits reports whether a rule may act on a work request. How often it acts is not asked.
func fits(f *fault.Rule, r *request) bool {
	m := &f.Match
	t := transports[r.by.link.Transport].on
	return (m.QP == 0 || uint32(m.QP) == r.by.qpn) && (m.Transport == 0 || m.Transport == t) &&
		m.Opcode.Has(r.opcode) && m.Size.Has(uint64(r.N)) && (m.Index == nil || *m.Index == r.index)
}

// has reports whether a rule of a kind may have acted on a work request.
func (w *world) has(r *request, kinds ...string) bool {
	for i := range w.rules {
		f := &w.rules[i]
		if slices.Contains(kinds, f.Kind()) && fits(f, r) {
			return true
		}
	}
	return false
}

// cannot reports whether the transport of a work request does not have its operation.
func cannot(r *request) bool { return !r.by.link.has(r.opcode) }

// mayGetLost reports whether a work request may have had no effect although it succeeded: only without
// acknowledgements.
func (w *world) mayGetLost(r *request) bool {
	if r.by.link.reliable() || r.opcode == wqe.OpNop {
		return false
	}
	p := r.by.peer
	if takesReceive(r.opcode) && (!r.sure || p.receives.keyOut || p.receives.least < r.N+p.link.grh()) {
		return true
	}
	return p.keyOut || p.client.gone || r.life.peer.unwell() || w.disconnected(p) ||
		w.has(r, "lose-request", "rnr", "deregister")
}

// unwell reports whether a queue pair may have been in error.
func (l *life) unwell() bool { return l.broken || l.flushed || len(l.failed) > 0 }

// checkErrors judges the errors of an end's life, when it is over.
func (w *world) checkErrors(q *end) {
	l := q.life
	if l.over {
		return
	}
	l.over = true
	for _, f := range l.failed {
		if !w.excused(q, f) {
			w.blame(verdict.WrongBytes, q, "SUCCESS", "%s (vendor 0x%02x) for %s", f.syndrome.Status(), f.vendor, f.name())
		}
	}
	for _, m := range l.messages {
		if m.done && !m.arrived && !q.link.reliable() && !w.mayGetLost(m) {
			w.blame(verdict.Lost, q, "a receive of its peer that completes with "+m.name(), "none")
		}
	}
	for _, r := range l.missing {
		if !w.mayGetLost(r) {
			w.blame(verdict.Lost, q, "the bytes of "+r.name()+" at its peer", "other bytes")
		}
	}
	reason := l.broken || len(l.failed)+len(l.peer.failed) > 0 || q.peer.client.gone
	if l.flushed && !reason && !w.disconnected(q) {
		w.blame(verdict.WrongBytes, q, "no error, because nothing has failed", "WR_FLUSH_ERR")
	}
}

// refusesImmediate reports whether a WRITE with immediate for q may have named a key that has gone: then the
// receive fails, in which its immediate would have been reported.
func (w *world) refusesImmediate(q *end) bool {
	from := q.life.peer
	for _, m := range from.messages[from.matched:] {
		if m.opcode == wqe.OpRDMAWriteImm && (q.keyOut || w.has(m, "deregister")) {
			return true
		}
	}
	return false
}

// disconnected reports whether a rule may have put q into error.
func (w *world) disconnected(q *end) bool {
	for i := range w.rules {
		if k := w.rules[i].Kind(); k == "disconnect" {
			m := &w.rules[i].Match
			if m.QP == 0 || uint32(m.QP) == q.peer.qpn {
				return true
			}
		}
	}
	return false
}

// excused reports whether something that the plan has done explains an error.
func (w *world) excused(q *end, f failure) bool {
	r, p := f.request, q.peer
	for i := range w.rules {
		x := &w.rules[i]
		if c := x.Complete; c != nil && fits(x, r) && cqe.Syndrome(c.Syndrome) == f.syndrome &&
			(c.Vendor == nil || uint8(*c.Vendor) == f.vendor) {
			return true
		}
	}
	key := w.has(r, "deregister")
	switch f.syndrome {
	case cqe.LocalQPOp:
		return cannot(r)
	case cqe.LocalProtection:
		return q.keyOut || key
	case cqe.RemoteAccess:
		return remote(r.opcode) && (p.keyOut || key)
	case cqe.RemoteOperation:
		return takesReceive(r.opcode) && p.receives.keyOut
	case cqe.RemoteInvalidRequest:
		return takesReceive(r.opcode) && p.receives.least < r.N
	case cqe.RNRRetry:
		return q.link.RNRRetry < 7 && (takesReceive(r.opcode) || w.has(r, "rnr"))
	case cqe.TransportRetry:
		if p.client.gone || r.life.peer.unwell() {
			return true
		}
		return w.disconnected(p) || w.has(r, "lose-request", "lose-answer")
	}
	return false
}
