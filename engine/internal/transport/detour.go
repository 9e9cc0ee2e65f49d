//go:build linux && (amd64 || arm64)

package transport

import (
	"fmt"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// Packets of queue pairs that rules of faults act on take a detour: while such a queue pair sends, its port
// has a ring of the device's own in place of the link's. Then the device decides what happens to each packet
// in that ring, and what is left goes to the link's ring. So the functions that send packets need not know of
// rules, and the packets of all other queue pairs are sent as if there were none.

// A detours is what a shard needs for detours.
type detours struct {
	ring *packetring.Producer // nil: no packet has taken a detour yet
	end  *packetring.Consumer
	held map[*object.QP]*held // packets that rules have held back
	size int                  // bytes of these packets
}

// detourSize is the size of the ring of detours: more packets than most visits send, and room for payloads of
// any length. If it is full, the visit ends, as if the link's ring were full.
var detourSize = packetring.Geometry{Slots: 64, Data: 256 << 10}

// makeRing makes the ring, which is empty between two detours.
func (d *detours) makeRing() {
	mem, err := shm.Heap(detourSize.Size())
	if err == nil {
		d.ring, err = packetring.NewProducer(mem.Bytes(), detourSize, nil)
	}
	if err == nil {
		d.end, err = packetring.NewConsumer(mem.Bytes(), detourSize, nil)
	}
	if err != nil {
		panic(fmt.Sprintf("transport: the ring of detours: %v", err)) // its size is fixed and possible
	}
}

// detour calls send, in which q may send packets through p. The packets take a detour if rules act on them.
func (sh *wires) detour(q *object.QP, p *object.Port, send func()) {
	if !q.Faults.OnPackets() || p.Dead {
		send()
		return
	}
	if sh.detours.ring == nil {
		sh.detours.makeRing()
	}
	ring := p.Settings.Send
	p.Settings.Send = sh.detours.ring
	defer func() { // also after a fault of memory
		p.Settings.Send = ring
		sh.decideAll(q, p)
	}()
	send()
}

// VisitWatchedWire is VisitWire for a queue pair that may be faulty. As long as packets wait for room in the
// link's ring, it sends no others.
func (sh *sender) VisitWatchedWire(q *object.QP) (done int) {
	if h := sh.detours.held[q]; h != nil && len(h.ready) > 0 {
		return 0
	}
	sh.detour(q, q.Wire.Port, func() { done = sh.VisitWire(q) })
	return done
}

// arrivedFaulty is arrived for a packet in p that may be for q, whose answers take a detour.
func (sh *PortServer) arrivedFaulty(p *object.Port, q *object.QP) {
	k := &p.Packet
	if op := packet.Opcode(k.Head[0]); op.Info().Atomic {
		psn := packet.ParseBTH((*[packet.BTHSize]byte)(k.Head[:])).PSN
		q.Faults.Link.NoteAtomic(psn, requestOf(op.Operation()))
	}
	sh.detour(q, p, func() { sh.arrived(p) })
}

// acknowledgeWatched is acknowledge for a queue pair that is watched or faulty.
func (sh *wires) acknowledgeWatched(w *object.Wire) (ok bool) {
	sent := w.Port.Settings.Send.Sent()
	sh.detour(w.Q, w.Port, func() { ok = sh.sendACK(w, w.In.Data) })
	sh.RecordSent(w.Q, w.Port, sent)
	return ok
}

// DetourDatagram calls send, in which the UD queue pair q executes the WQE in the snapshot. If that is a
// datagram that leaves the device, it takes a detour.
func (sh *sender) DetourDatagram(q *object.QP, send func()) {
	av := wqe.ReadAV((*[wqe.AVSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:]))
	a := &q.Datagrams.Away
	if sh.Router == nil || av.DQP == execution.MulticastQPN || !sh.RouteAway(q, &av) || a.Err != nil {
		send()
		return
	}
	p := a.Path.Port.(*PortHandle).Port
	if sh.Several && !sh.Holds(p.Shard) {
		send() // postpones the WQE
		return
	}
	sh.detour(q, p, send)
}

// decideAll decides what happens to the packets in the ring of detours, which q has sent through p.
func (sh *wires) decideAll(q *object.QP, p *object.Port) {
	var k packetring.Packet
	for {
		ok, err := sh.detours.end.Next(&k)
		if err != nil {
			panic(err) // the ring is the device's own memory
		}
		if !ok {
			break
		}
		sh.decide(q, p, &k)
	}
	sh.detours.end.Free()
	if p.Shard != &sh.Shard {
		p.Shard.GotWork = true // the port's thread wakes the carrier
	}
}

// decide asks the rules what happens to a packet that q sends through p, and does it.
func (sh *wires) decide(q *object.QP, p *object.Port, k *packetring.Packet) {
	l := q.Faults.Link
	now := sh.Now()
	cut, over, lost := l.Cut(now)
	if cut {
		return
	}
	if over != nil {
		sh.ExplainQueue(q, codes.FaultInjected,
			"the cut by rule %v is over; after the first packet it has lost %d", over, lost)
	}
	facts := packetFacts(q, p, l, k)
	hit, acts := l.Next(now, &facts)
	if !acts {
		sh.pass(q, p, k, 1)
		return
	}
	sh.explainPacket(q, p, k, "injected by rule %v: %v%s", hit.Rule, sh.injectPacket(q, p, k, now, &hit))
}

// injectPacket does what a rule says of a packet. It returns, as the end of a sentence, what the rule leaves
// open, or what was done instead.
func (sh *wires) injectPacket(q *object.QP, p *object.Port, k *packetring.Packet, now uint64,
	hit *fault.Hit) string {
	var a fault.Packet // zero: the packet is lost, because of a cut or of the MTU
	if hit.Rule.Packet != nil {
		a = *hit.Rule.Packet
	}
	switch {
	case a.Do == fault.Duplicate:
		sh.pass(q, p, k, 2)
		return ""
	case a.Do == fault.Reorder && sh.holdBehind(q, p, k, now):
		return ""
	case a.Do == fault.Reorder:
		sh.pass(q, p, k, 1)
		return "; it passes, because too many wait already: " + mostWait
	}
	end := ""
	switch {
	case a.Do == fault.Corrupt:
		bit := hit.Draw % uint64(8*(k.N+len(k.Payload)))
		end = fmt.Sprintf("; bit %d of byte %d is wrong, so the receiver drops it", bit%8, bit/8)
	case a.Delay != 0 && a.Delay != fault.Forever && !sh.delay(q, p, k, now, a.Delay):
		end = "; it is lost, because too many wait already: " + mostWait
	}
	sh.overtaken(q)
	return end
}

// explainPacket explains what happens to a packet that q sends through p. The format has a value, the packet,
// and what follows.
func (sh *wires) explainPacket(q *object.QP, p *object.Port, k *packetring.Packet, format string, why any,
	end string) {
	h := packet.ParseBTH((*[packet.BTHSize]byte)(k.Head[:]))
	sh.ExplainQueue(q, codes.FaultInjected, format, why, describedPacket{p, k, h}, end)
}

// A describedPacket is a packet of a port, as explanations describe it.
type describedPacket struct {
	p *object.Port
	k *packetring.Packet
	h packet.BTH
}

func (d describedPacket) String() string {
	return fmt.Sprintf("%v with PSN %#06x and %d bytes of payload, to QP %#06x on link %s", d.h.Opcode, d.h.PSN,
		payloadOf(d.p, d.h.Opcode, d.k), d.h.DestQP, d.p.Settings.Name)
}
