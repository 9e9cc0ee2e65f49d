//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// An inbound is the receiving half of a queue pair on a wire.
type inbound struct {
	psn  uint32 // the PSN that is expected
	data uint32 // the PSN of the latest SEND or WRITE packet before it, which acknowledgements name
	msn  uint32 // number of messages so far
	job  *job   // the message under way, of which packets are still to come; nil: none

	writes bool   // that message is a WRITE
	entry  []byte // a private copy of the receive that it has opened, if it is a SEND
	unit   int    // where the part of that list begins that is not in job.dst yet
	room   uint64 // bytes of job.dst

	fatal    uint8 // the NAK with which the queue pair went to error; 0: none. psn is the PSN that it refuses
	unsaid   bool  // that NAK is still to be sent, after the answers that are owed
	refusing bool  // a request is being executed: if the queue pair goes to error, the answers stay owed
	missed   bool  // a packet was dropped that may have been expected, because the path was closed
	silent   bool  // a NAK was sent, and later packets are dropped until the expected one comes
	owed     bool  // an acknowledgement is owed, and the wire is among port.acks
	met      bool  // a request has come, and the client was told so

	reads     []answerDue // answers that are owed, a ring; the oldest is at firstDue
	firstDue  int
	due       int
	fresh     int  // how many of them were asked for once
	answerJob *job // of the oldest answer, if it is that of a READ of which some packets were sent

	results    []result // of the latest atomics, a ring
	lastResult int
}

// receive serves a packet that has come for q.
func (sh *sender) receive(p *port, q *qp, info *packet.Info) {
	if q.transport == control.QPTypeUD {
		sh.receiveDatagram(p, q, info)
		return
	}
	w := q.wire
	switch {
	case p.packet.Path != w.from:
		p.stats.Strangers++
	case w.source != w.from && q.reliable() && p.bth.Opcode != packet.OpCNP && sh.shutOut(p, q, info):
	case !q.listens():
		if info.Request && p.bth.PSN == w.in.psn && w.in.fatal != 0 && !w.in.unsaid {
			sh.sendNAK(q, w.in.fatal) // the first one was lost
		}
	case p.bth.Opcode == packet.OpCNP:
		p.stats.Marks++
		w.out.marked()
	case p.bth.Opcode.Service() != q.service():
		p.stats.Strangers++
	case info.Response:
		if q.attr.State >= control.StateRTS && q.reliable() {
			sh.takeAnswer(p, q, info)
		}
	case q.reliable():
		sh.takeRequest(p, q, info)
	default:
		sh.serveUnreliable(p, q, info)
	}
}

// A receiver serves their packets.
type receiver struct{ wires }

// takeRequest serves a packet of a request on a reliable connection.
func (sh *receiver) takeRequest(p *port, q *qp, info *packet.Info) {
	in := &q.wire.in
	d := packet.DiffPSN(p.bth.PSN, in.psn)
	far := d > pathReach || d < -pathReach
	if far {
		p.stats.OutOfWindow++
	} else {
		sh.established(q)
	}
	if d != 0 && sh.strays(p, q, far, false) || d == 0 && sh.crowded(p, q, false) {
		return
	}
	switch {
	case d > 0:
		if !far {
			p.stats.Gaps++
		}
		if !in.silent {
			in.silent = sh.sendNAK(q, packet.NAKSequence)
		}
	case d < 0:
		if !far {
			p.stats.Duplicates++
		}
		sh.repeat(p, q, info)
	default:
		in.silent = false
		in.refusing = true
		a := sh.serveRequest(p, q, info)
		in.refusing = false
		if a != answerACK {
			sh.refusePacket(p, q, a)
		}
	}
}

// refusePacket answers the expected packet with a NAK.
func (sh *receiver) refusePacket(p *port, q *qp, a answer) {
	in := &q.wire.in
	if _, rnr := a.rnr(); rnr {
		p.stats.NotReady++
		in.silent = sh.sendNAK(q, uint8(a))
		return
	}
	switch a {
	case answerAgain, answerNone, answerDrop:
		return // the requester asks again
	}
	sh.oweNAK(q, a)
	sh.sendAnswers(q, &p.left)
}

// oweNAK notes the NAK a for the packet that is expected. The queue pair is in error. The NAK is sent
// when the answers to requests before it have been sent: it would fail them.
func (sh *receiver) oweNAK(q *qp, a answer) {
	w := q.wire
	w.port.stats.Refused++
	w.in.fatal, w.in.unsaid = uint8(a), true
	w.in.owed = false // the NAK acknowledges everything before it
	sh.markWarm(q)
}

// faultOfRequest is called when memory of q or of its client has lost its page while q was serving
// its peer. On a reliable connection the peer's request fails, and the queue pair with it; on others,
// as within the device, only the queue pair. Nothing is sent here: the ring may be without pages, too.
func (sh *receiver) faultOfRequest(q *qp, addr uintptr) {
	sh.explainQueue(q, codes.MemoryFault, noPage+"; the request of its peer fails, and the queue pair is in error", addr)
	w := q.wire
	if w == nil || !q.reliable() {
		sh.setError(q)
		return
	}
	in := &w.in
	if sh.fault.answers && in.due > 0 { // the request whose answer was being sent, not the one that has come last
		d := &in.reads[in.firstDue]
		in.psn = packet.AddPSN(d.psn, d.sent)
		in.forgetAnswers()
	}
	in.refusing = true
	sh.setError(q)
	in.refusing = false
	sh.oweNAK(q, answerOperation)
}

// outOfPlace refuses a packet that does not fit its place in a message.
func (sh *receiver) outOfPlace(p *port, q *qp) answer {
	j := sh.scratch.job
	j.reset(head{})
	j.peer = q
	sh.explainResponder(j, codes.LinkPlace, "a packet of %v from peer QP %#06x is out of place; a message under way: %t", p.bth.Opcode, q.attr.DestQPN, q.wire.in.job != nil)
	return sh.refuseRequest(q, control.EventInvalidRequest, answerInvalidRequest)
}

// badLength refuses a packet whose payload is longer or shorter than its place in a message allows.
func (sh *receiver) badLength(p *port, q *qp, want uint64) answer {
	j := sh.scratch.job
	j.reset(head{})
	j.peer = q
	sh.explainResponder(j, codes.LinkLength, "a packet of %v from peer QP %#06x has %d bytes; %d were expected (path MTU %d)", p.bth.Opcode, q.attr.DestQPN, len(p.packet.Payload), want, q.wire.mtu)
	return sh.refuseRequest(q, control.EventInvalidRequest, answerInvalidRequest)
}

// owe notes that q owes an acknowledgement at the end of the batch.
func (p *port) owe(q *qp) {
	if in := &q.wire.in; !in.owed {
		in.owed = true
		p.acks = append(p.acks, q.wire)
	}
}

// acknowledgeAll sends the acknowledgements that are owed, as far as the ring has room. One
// acknowledges all packets before it. It must not overtake an answer, nor name the PSN of one: a
// requester may take it for an answer that was lost. Soft-RoCE seems to.
func (sh *wires) acknowledgeAll(p *port) {
	kept := p.acks[:0]
	for _, w := range p.acks {
		switch {
		case w.q.wire != w || !w.in.owed: // q was reset, or is in error
		case w.in.due > 0 || !sh.sendACK(w, w.in.data):
			kept = append(kept, w)
		default:
			w.in.owed = false
		}
	}
	clear(p.acks[len(kept):])
	p.acks = kept
}

// sendNAK sends a NAK for the packet that is expected, and reports whether there was room.
func (sh *receiver) sendNAK(q *qp, syndrome uint8) bool {
	return sh.sendAETH(q, syndrome, q.wire.in.psn)
}

// sendAETH sends an acknowledgement.
func (sh *wires) sendAETH(q *qp, syndrome uint8, psn uint32) bool {
	w := q.wire
	op := packet.MakeOpcode(q.service(), packet.Acknowledge)
	info := op.Info()
	if !w.port.up {
		return true // lost, like everything on a link that is down
	}
	h, _, ok := w.port.reserve(info.HeaderSize, 0)
	if !ok {
		return false
	}
	w.putBTH(h, op, psn, false, false)
	packet.AETH{Syndrome: syndrome, MSN: w.in.msn}.Put((*[packet.AETHSize]byte)(h[info.OffAETH:]))
	w.port.publish(w.path, 0)
	return true
}

// dropMessage forgets the message under way.
func (sh *mover) dropMessage(in *inbound) {
	if in.job != nil {
		sh.dismissJob(in.job)
		in.job = nil
	}
	if in.answerJob != nil {
		sh.dismissJob(in.answerJob)
		in.answerJob = nil
	}
}
