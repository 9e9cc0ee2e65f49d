//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
)

// A ring that cannot be read: on hardware, the memory of a queue fails, or its pages are gone. In this device
// the memory is shared and stays, so only a rule of faults makes it so.

// rings makes rings unreadable, between two steps.
type rings struct{ Device }

// spoil does what the rule says that acts on the next WQE of a queue pair. The ring is the send ring of
// that queue pair, or the ring from which its peer takes receives; on a link, its own.
func (d rings) spoil(number uint32) {
	q := d.QPs[number]
	if q == nil || q.Faults == nil || !q.Faults.Acts {
		return // it has gone, or the rules have ended
	}
	p := q
	if q.Faults.Rule.Unreadable == fault.Receive && q.Wire == nil {
		p = d.BoundPeer(q)
	}
	loop := d.Loops[q.Client.Shard.Number]
	switch {
	case p == nil || p.Dead || p.Transport == control.QPTypeDCT:
		loop.ExplainQueue(q, codes.FaultInjected, "rule %v does nothing here: it is for peers that are connected",
			q.Faults.Rule)
		return
	case !mayEnd(q, p):
		loop.ExplainQueue(q, codes.FaultInjected, "rule %v does nothing here: it must not harm programs of another user",
			q.Faults.Rule)
		return
	}
	loop.ExplainQueue(q, codes.FaultInjected, "injected by rule %v", q.Faults.Rule)
	if s := p.RQ.SRQ; q.Faults.Rule.Unreadable == fault.Receive && s != nil {
		d.endSRQ(s, q)
		return
	}
	p.Event(control.EventQPFatal)
	d.endQueue(p, q)
}

// mayEnd reports whether the rule that acts on q may harm the clients of p.
func mayEnd(q, p *object.QP) bool {
	clients := []*object.Client{p.Client}
	if p.XRC != nil {
		clients = append(clients, p.XRC.Others...)
	}
	for _, c := range clients {
		if c != q.Client && !q.Faults.From.MayFault(c.UID) {
			return false
		}
	}
	return true
}

// endSRQ ends the queue pairs that take receives from an SRQ: all of them, because the ring is that of all.
func (d rings) endSRQ(s *object.SRQ, cause *object.QP) {
	if s.Client == nil || s.Gone {
		return
	}
	s.Client.Event(control.EventSRQError, s.Num)
	for _, p := range d.QPs {
		if p.RQ.SRQ == s && p.Transport != control.QPTypeDCT {
			d.endQueue(p, cause)
		}
	}
}

// endQueue moves a queue pair to error. Its work requests are flushed.
func (d rings) endQueue(p, cause *object.QP) {
	loop := d.Loops[p.Client.Shard.Number]
	loop.NewFault()
	loop.StopsBecause(p, codes.FaultInjected, "injected by rule %v, which acts on WQE %#04x of QP %#06x",
		cause.Faults.Rule, uint16(cause.SQ.Done), cause.Num)
	loop.SetError(p)
}
