//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// receive serves a packet that has come for q.
func (sh *sender) receive(p *object.Port, q *object.QP, info *packet.Info) {
	if q.Transport == control.QPTypeUD {
		sh.receiveDatagram(p, q, info)
		return
	}
	w := q.Wire
	switch {
	case p.Packet.Path != w.From:
		p.Stats.Strangers++
	case w.Source != w.From && q.Reliable() && p.BTH.Opcode != packet.OpCNP && sh.shutOut(p, q, info):
	case !q.Listens():
		if info.Request && p.BTH.PSN == w.In.PSN && w.In.Fatal != 0 && !w.In.NAKDue {
			sh.sendNAK(q, w.In.Fatal) // the first one was lost
		}
	case p.BTH.Opcode == packet.OpCNP:
		p.Stats.Marks++
		w.Out.Marked()
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
	if d != 0 && sh.strays(p, q, far, false) || d == 0 && sh.dropCrowded(p, q, false) {
		return
	}
	switch {
	case d > 0:
		if !far {
			p.Stats.Gaps++
		}
		if !in.Silent {
			in.Silent = sh.sendNAK(q, packet.NAKSequence)
		}
	case d < 0:
		if !far {
			p.Stats.Duplicates++
		}
		sh.repeat(p, q, info)
	default:
		in.Silent = false
		in.Refusing = true
		a := sh.serveRequest(p, q, info)
		in.Refusing = false
		if a != object.AnswerACK {
			sh.refusePacket(p, q, a)
		}
	}
}

// refusePacket answers the expected packet with a NAK.
func (sh *receiver) refusePacket(p *object.Port, q *object.QP, a object.Answer) {
	in := &q.Wire.In
	if _, rnr := a.RNR(); rnr {
		p.Stats.NotReady++
		in.Silent = sh.sendNAK(q, uint8(a))
		return
	}
	switch a {
	case object.AnswerAgain, object.AnswerNone, object.AnswerDrop:
		return // the requester sends it again
	}
	sh.scheduleNAK(q, a)
	sh.sendAnswers(q, &p.Left)
}

// FaultOfRequest is called when memory of q or of its client has lost its page while q was serving
// its peer. On a reliable connection the peer's request fails, and the queue pair with it; on others,
// as within the device, only the queue pair. No packet is sent here: the ring may be without pages,
// too.
func (sh *receiver) FaultOfRequest(q *object.QP, addr uintptr) {
	sh.ExplainQueue(q, codes.MemoryFault, object.NoPage+"; the request of its peer fails, and the queue pair is in error", addr)
	w := q.Wire
	if w == nil || !q.Reliable() {
		sh.SetError(q)
		return
	}
	in := &w.In
	// The request whose answer was being sent, not the one that has come last.
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
