//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
)

// A queue pair whose peer is on another device is on a wire: it sends packets of the InfiniBand
// transport (InfiniBand Architecture Specification, volume 1, chapter 9) through a port. The rules
// of work requests are those of the local path, in the same functions: the requester judges a
// WQE (requester.go), the responder judges the request (responder.go). Between the two are not a
// call and one copy, but packets:
//
//	wire_requester.go  WQEs become messages
//	wire_send.go       messages become packets
//	wire_answers.go    acknowledgements, NAKs, and the answers of READs and atomics
//	wire_timer.go      no answer in time; RNR
//	wire_responder.go  requests in order, again, or too early
//	wire_message.go    packets become messages
//	wire_reads.go      answers to READs and atomics
//	wire_guard.go      packets of somebody who tries PSNs
//	wire_datagram.go   UD, whose queue pairs are on no wire: each datagram has its own path
//
// While a queue pair is on a wire, sq.done counts the blocks whose WQEs have become messages.
// Messages complete later, in order. When the queue stops, sq.done goes back to the oldest
// message, so that the flush finds every WQE that has not completed.
type wire struct {
	q      *qp
	port   *port
	path   uint32 // of packets that are sent
	from   uint32 // path of packets that come from the peer
	source uint32 // path from which packets are taken without further ado: from, or noPath; see pathGuard
	mtu    uint32 // payload of a full packet, in bytes
	out    outbound
	in     inbound
	timer  timer

	guard       *pathGuard // of the path
	guarded     int        // index in its list
	strays      uint64     // packets with PSNs that the peer would not use
	nearRequest uint64     // time until which a request with the expected PSN counts as part of a scan; 0: none
	nearAnswer  uint64     // the same for answers

	timeout  uint8  // the attribute
	patience uint64 // and its time on the device clock
}

// connectWire is called when q goes to RTR and its peer is on another device. Its client has paid
// wireCost.
func (sh *wires) connectWire(q *qp, to nic.Path) {
	p := to.Port.(*portHandle).port
	w := &wire{q: q, port: p, path: to.Number, from: to.Source, mtu: p.mtuOf(q.attr.PathMTU, to.MTU)}
	w.timer.wire = w
	w.in.psn, w.in.data = q.attr.RQPSN, packet.AddPSN(q.attr.RQPSN, 1<<24-1)
	w.in.reads = make([]answerDue, mostAnswers)
	w.in.results = make([]result, mostResults)
	if q.hasReceives() {
		w.in.entry = make([]byte, 1<<maxLogRQStride)
	}
	w.out.messages = make([]message, min(q.sq.mask+1, mostMessages))
	w.out.full = p.window(w.mtu)
	q.wire = w
	q.client.linked++
	p.users++
	p.guard(w)
	p.acks = slices.Grow(p.acks, p.users)
}

// beginSending is called when q goes to RTS, which names its first PSN.
func (w *wire) beginSending() {
	r := &w.out
	*r = outbound{messages: r.messages, full: r.full, window: r.full}
	r.psn, r.una, r.most, r.calm = w.q.attr.SQPSN, w.q.attr.SQPSN, w.q.attr.SQPSN, w.q.attr.SQPSN
}

// hasReceives reports whether q can take messages with receives.
func (q *qp) hasReceives() bool { return q.rq.ring != nil || q.rq.srq != nil || q.xrcd != nil }

// mtuOf returns the payload of a full packet of a queue pair with this path MTU.
func (p *port) mtuOf(pathMTU uint8, most int) uint32 {
	n := p.cfg.MTU
	if most > 0 {
		n = min(n, most)
	}
	if !p.cfg.Jumbo {
		n = min(n, 128<<min(max(pathMTU, 1), 5))
	}
	return uint32(n)
}

// window returns how many packets may be on the way without an acknowledgement.
func (p *port) window(mtu uint32) uint32 {
	n := uint32(losslessWindow)
	if p.cfg.Window > 0 {
		n = uint32(p.cfg.Window)
	}
	return max(n/mtu, leastWindow)
}

const (
	losslessWindow = 8 << 20 // bytes on the way, if no packets are lost
	leastWindow    = 2       // packets
	leastPart      = 16      // packets of the answer to a READ that are asked for together, if the window is smaller
	mostMessages   = 128     // messages of one queue pair on the way
	mostAnswers    = 32      // answers to READs and atomics that one queue pair owes
	mostResults    = 32      // results of atomics that are kept, in case they are asked for again
	ackEvery       = 16      // a packet in so many asks for an acknowledgement
)

// A wires keeps the timers and the state of queue pairs whose peers are on other devices.
type wires struct{ executor }

// leaveWire ends q's use of its wire.
func (sh *wires) leaveWire(q *qp) {
	w := q.wire
	if w == nil {
		return
	}
	sh.rewindQueue(q)
	w.port.sh.timers.disarm(&w.timer)
	sh.dropMessage(&w.in)
	q.wire = nil
	q.client.refund(wireCost)
	q.client.linked--
	w.port.users--
	w.port.unguard(w)
}

// rewindQueue makes sq.done the count of blocks that have completed, and forgets all messages.
func (sh *wires) rewindQueue(q *qp) {
	out := &q.wire.out
	sh.dropJob(out)
	sh.dropAnswerJob(out)
	if out.first != out.last {
		q.sq.done = out.oldest().index
		out.first = out.last
	}
	out.at, out.sent = out.last, 0
	if !q.reliable() {
		out.psn = out.una // the rest of a message is not sent any more
	}
	out.reading = 0
	out.paused = false
}

// stopWire is called when q stops sending: in ERR, SQE.
func (sh *wires) stopWire(q *qp) {
	if q.wire == nil {
		return
	}
	sh.rewindQueue(q)
	q.wire.port.sh.timers.disarm(&q.wire.timer)
	if q.attr.State == control.StateERR {
		sh.dropMessage(&q.wire.in)
		if !q.wire.in.refusing {
			q.wire.in.forgetAnswers()
			q.wire.in.owed = false
		}
	}
}

// visitWire is visit for a queue pair on a wire.
func (sh *sender) visitWire(q *qp) (done int) {
	w := q.wire
	if q.attr.State == control.StateRTS && !w.in.owes() && w.out.at == w.out.last && q.job == nil && sh.pending(q) == 0 {
		return 0 // nothing to send
	}
	bytes := sh.cfg.slice
	if w.in.owes() {
		done += sh.sendAnswers(q, &bytes)
		sh.sched.spent = sh.cfg.slice - bytes
	}
	switch q.attr.State {
	case control.StateERR, control.StateSQE:
		return done + sh.flush(q)
	case control.StateRTR, control.StateRTS, control.StateSQD:
	default:
		return done
	}
	if q.attr.State != control.StateRTR && q.wire != nil {
		done += sh.sendRequests(q, max(bytes, 1))
	}
	return done
}

// wireHasWork is hasWork for a queue pair on a wire.
func (sh *wires) wireHasWork(q *qp) bool {
	w := q.wire
	if w.in.owes() {
		return true
	}
	switch q.attr.State {
	case control.StateRTS:
		return q.stall.kind == noStall && (w.canSend() || q.job != nil || sh.pending(q) > 0 && w.canFetch())
	case control.StateSQD:
		return w.canSend() || q.job != nil
	}
	return false
}

// resumeWires marks the queue pairs of a port warm, because its link works again.
func (sh *wires) resumeWires(p *port) {
	for _, q := range sh.running {
		if q.wire != nil && q.wire.port == p {
			sh.markWarm(q)
		}
	}
}

// whyNoAnswer returns why the peer of q may not answer.
func (q *qp) whyNoAnswer() reason {
	w := q.wire
	switch {
	case w.port.dead:
		return because(codes.LinkDown, "link %s, to peer QP %#06x, has been closed", w.port.cfg.Name, q.attr.DestQPN)
	case !w.port.up:
		return because(codes.LinkDown, "link %s, to peer QP %#06x, is down", w.port.cfg.Name, q.attr.DestQPN)
	}
	if w.out.most == w.out.una && w.out.first != w.out.last {
		return because(codes.LinkDown, "link %s, to peer QP %#06x, takes no packets: its ring is full", w.port.cfg.Name, q.attr.DestQPN)
	}
	return because(codes.PeerSilent, "peer QP %#06x on link %s does not answer packet %#06x: no such queue pair, one that is not connected back, or packets are lost",
		q.attr.DestQPN, w.port.cfg.Name, w.out.una)
}

// putBTH writes the base transport header of a packet.
func (w *wire) putBTH(b []byte, op packet.Opcode, psn uint32, ask, solicited bool) {
	packet.PutBTH((*[packet.BTHSize]byte)(b), op, solicited, 0, defaultPKey, w.q.attr.DestQPN, ask, psn)
}

// service returns the service of q's packets.
func (q *qp) service() packet.Service {
	switch q.transport {
	case control.QPTypeUC:
		return packet.UC
	case control.QPTypeXRC:
		return packet.XRC
	}
	return packet.RC
}
