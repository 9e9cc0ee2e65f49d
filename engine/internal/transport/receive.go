//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
)

// receive serves a packet that has come for q, if q takes such packets and they come from its peer.
func (sh *sender) receive(p *object.Port, q *object.QP, info *packet.Info) {
	if q.Transport == control.QPTypeUD {
		sh.receiveDatagram(p, q, info)
		return
	}
	w := q.Wire
	alarm := w.Source != w.From && w.Guard.Alarm && q.Reliable() // a stranger tries PSNs; see scan_guard.go
	switch {
	case p.Packet.Path != w.From:
		p.Stats.Strangers++
	case alarm && p.BTH.Opcode != packet.OpCNP && sh.dropShutOut(p, q, info):
		// The packet is dropped.
	case !q.Listens():
		if info.Request && p.BTH.PSN == w.In.PSN && w.In.Fatal != 0 && !w.In.NAKDue {
			sh.sendNAK(q, w.In.Fatal) // the NAK that was sent before is lost
		}
	case p.BTH.Opcode == packet.OpCNP:
		p.Stats.Marks++
		q.Client.Traffic.N[nic.CNPs]++
		w.Out.Marked(w.Out.UNA, w.Out.Most)
	case p.BTH.Opcode.Service() != q.Service():
		p.Stats.Strangers++
	case info.Response:
		if q.Attr.State >= control.StateRTS && q.Reliable() {
			sh.takeAnswer(p, q, info)
		}
	case q.Reliable():
		sh.takeRequest(p, q, info)
	default:
		sh.serveUnreliable(p, q, info)
	}
}

// takeRequest serves a packet of a request on a reliable connection.
func (sh *receiver) takeRequest(p *object.Port, q *object.QP, info *packet.Info) {
	in := &q.Wire.In
	d := packet.DiffPSN(p.BTH.PSN, in.PSN)
	far := d > PathReach || d < -PathReach
	if far {
		p.Stats.OutOfWindow++
	} else {
		sh.NotifyEstablished(q)
	}
	dropped := false
	if d == 0 {
		dropped = sh.dropSuspect(p, q, false)
	} else {
		dropped = sh.countStray(p, q, far, false)
	}
	if dropped {
		return
	}
	switch {
	case d > 0:
		if !far {
			p.Stats.Gaps++
			q.Client.Traffic.N[nic.OutOfSequence]++
		}
		if sh.keepEarly(p, q, info) {
			return
		}
		if !in.Silent {
			in.Silent = sh.sendNAK(q, packet.NAKSequence)
		}
	case d < 0:
		if !far {
			p.Stats.Duplicates++
			q.Client.Traffic.N[nic.Duplicates]++
		}
		sh.repeat(p, q, info)
		sh.reportAfter(q, p.BTH)
	default:
		from, header := in.PSN, p.BTH
		sh.takeExpected(p, q, info)
		if q.Wire != nil && q.Wire.Recovery.Keeps() {
			sh.serveEarly(p, q, from)
		}
		sh.reportAfter(q, header)
	}
}

// takeExpected serves the packet that is expected. It reports whether the packet was executed.
func (sh *receiver) takeExpected(p *object.Port, q *object.QP, info *packet.Info) bool {
	in := &q.Wire.In
	in.Silent = false
	in.Refusing = true
	a := sh.serveRequest(p, q, info)
	in.Refusing = false
	if a != object.AnswerACK {
		sh.refusePacket(p, q, a)
	}
	return a == object.AnswerACK
}

// refusePacket answers the expected packet with the NAK a, or drops the packet if a is no NAK.
func (sh *receiver) refusePacket(p *object.Port, q *object.QP, a object.Answer) {
	in := &q.Wire.In
	if _, rnr := a.RNR(); rnr {
		p.Stats.NotReady++
		in.Silent = sh.sendNAK(q, uint8(a))
		return
	}
	switch a {
	case object.AnswerAgain, object.AnswerNone, object.AnswerDrop:
		return // the requester sends the packet again
	}
	sh.scheduleNAK(q, a)
	sh.sendAnswers(q, &p.Left)
}

// FaultOfRequest is called when memory of q or of its client has lost its page while q was serving
// its peer. q goes to error. On a reliable connection the peer's request fails too. FaultOfRequest sends no
// packet, because the ring may have lost its pages too.
func (sh *receiver) FaultOfRequest(q *object.QP, addr uintptr) {
	sh.ExplainQueue(q, codes.MemoryFault, object.NoPage+"; the request of its peer fails, and the queue pair is in error", addr)
	w := q.Wire
	if w == nil || !q.Reliable() {
		sh.SetError(q)
		return
	}
	in := &w.In
	// The request that fails is the one whose answer was being sent, not the one that has come last.
	if sh.Fault.Answering && in.Due > 0 {
		d := &in.Reads[in.FirstDue]
		in.PSN = packet.AddPSN(d.PSN, d.Sent)
		in.DropAnswers()
	}
	in.Refusing = true
	sh.SetError(q)
	in.Refusing = false
	sh.scheduleNAK(q, object.AnswerOperation)
}
