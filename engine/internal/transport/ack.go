//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/linepacket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// ACKEvery is how many packets of a message, or of a series of short WRITEs, have one that asks for an
// acknowledgement.
const ACKEvery = 16

// sendAETH sends an acknowledgement or a NAK. It reports whether that is done: not if the ring has no room.
func (sh *wires) sendAETH(q *object.QP, syndrome uint8, psn uint32) bool {
	w := q.Wire
	op := packet.MakeOpcode(q.Service(), packet.Acknowledge)
	info := op.Info()
	if !w.Port.Up {
		return true // lost, like everything on a link that is down
	}
	h, _, ok := w.Port.Reserve(info.HeaderSize, 0)
	if !ok {
		return false
	}
	w.PutBTH(h, op, psn, false, false)
	packet.AETH{Syndrome: syndrome, MSN: w.In.MSN}.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
	traffic.Sent(q, 0)
	w.Port.Publish(w.Path, 0)
	return true
}

// sendNAK sends a NAK for the packet that is expected, and reports whether the ring had room.
func (sh *receiver) sendNAK(q *object.QP, syndrome uint8) bool {
	return sh.sendAETH(q, syndrome, q.Wire.In.PSN)
}

// sendACK acknowledges a PSN, and reports whether the ring had room. If it can, it makes the packet in
// registers, as one line of the ring.
func (sh *wires) sendACK(w *object.Wire, psn uint32) bool {
	q, p := w.Q, w.Port
	if !p.Up || q.Service() != packet.RC {
		return sh.sendAETH(q, packet.SyndromeACK, psn)
	}
	if !linepacket.PublishACK(p.Settings.Send, w.Path, q.Attr.DestQPN, psn, w.In.MSN) {
		p.Shard.RingFull = true
		return false
	}
	p.Sent(1, 0)
	traffic.Sent(q, 0)
	return true
}

// scheduleNAK notes the NAK a for the packet that is expected, of a queue pair in error. The NAK is sent when
// the answers to all earlier requests have been sent: if it came before them, the peer would fail those
// requests.
func (sh *receiver) scheduleNAK(q *object.QP, a object.Answer) {
	w := q.Wire
	w.Port.Stats.Refused++
	w.In.Fatal, w.In.NAKDue = uint8(a), true
	w.In.ACKDue = false // the NAK acknowledges everything before it
	sh.MarkWarm(q)
}

// acknowledge sends the acknowledgement that is due, and reports whether the ring had room.
func (sh *wires) acknowledge(w *object.Wire) bool {
	if w.Watched {
		return sh.acknowledgeWatched(w)
	}
	return sh.sendACK(w, w.In.Data)
}

// acknowledgeAll sends the acknowledgements that are due, as far as the ring has room. An acknowledgement of
// a PSN stands for all earlier packets. It must not overtake an answer to a READ or an atomic, nor name a PSN
// of such an answer: the requester may then think that the answer was lost. Soft-RoCE seems to.
func (sh *wires) acknowledgeAll(p *object.Port) {
	kept := 0
	for i, w := range p.ACKs {
		p.ACKs[i] = nil
		switch {
		case w.Q.Wire != w || !w.In.ACKDue: // q was reset, or is in error
		case w.In.Due > 0 || !sh.acknowledge(w):
			p.ACKs[kept] = w
			kept++
		default:
			w.In.ACKDue = false
		}
	}
	p.ACKs = p.ACKs[:kept]
}

// outOfPlace refuses a packet that does not fit its place in a message.
func (sh *receiver) outOfPlace(p *object.Port, q *object.QP) object.Answer {
	j := sh.Scratch.Job
	j.Reset(object.Head{})
	j.Peer = q
	sh.ExplainResponder(j, codes.LinkPlace, "a packet of %v from peer QP %#06x is out of place; a message under way: %t", p.BTH.Opcode, q.Attr.DestQPN, q.Wire.In.Job != nil)
	return sh.RefuseRequest(q, control.EventInvalidRequest, object.AnswerInvalidRequest)
}

// badOperands refuses a masked atomic that is not on a word of 4 or 8 bytes, or has too few or too many bytes
// of operands.
func (sh *receiver) badOperands(p *object.Port, q *object.QP, word uint64) object.Answer {
	j := sh.Scratch.Job
	j.Reset(object.Head{})
	j.Peer = q
	sh.ExplainResponder(j, codes.LinkLength,
		"a packet of %v from peer QP %#06x is on a word of %d bytes, with operands of %d; words have 4 or 8 bytes, "+
			"and operands 16, or 32 if they are of a compare-and-swap on 8", p.BTH.Opcode, q.Attr.DestQPN, word,
		len(p.Packet.Payload))
	return sh.RefuseRequest(q, control.EventInvalidRequest, object.AnswerInvalidRequest)
}

// badLength refuses a packet whose payload is longer or shorter than its place in a message allows.
func (sh *receiver) badLength(p *object.Port, q *object.QP, want uint64) object.Answer {
	j := sh.Scratch.Job
	j.Reset(object.Head{})
	j.Peer = q
	sh.ExplainResponder(j, codes.LinkLength,
		"a packet of %v from peer QP %#06x has %d bytes; %d were expected (path MTU %d)", p.BTH.Opcode,
		q.Attr.DestQPN, len(p.Packet.Payload), want, q.Wire.MTU)
	return sh.RefuseRequest(q, control.EventInvalidRequest, object.AnswerInvalidRequest)
}
