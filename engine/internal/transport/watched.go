//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
)

// Packets are recorded only while the device has watches. Those that were sent are read back from the ring,
// so that the functions that send packets need not know of watches.

// snap is how many bytes of a payload an event has at most. Headers and the short messages that people look
// at are whole; long payloads would fill the rings.
const snap = 256

// RecordSent records the packets that q has sent through its port since the port had sent the given number.
func (sh *wires) RecordSent(q *object.QP, p *object.Port, from uint64) {
	if q.Watched == 0 {
		return
	}
	var k packetring.Packet
	for n := p.Settings.Send.Sent(); from < n; from++ {
		if p.Settings.Send.Packet(from, &k) {
			sh.recordPacket(q, p, trace.KindSent, &k)
		}
	}
}

// recordPacket records a packet of the watched queue pair q.
func (sh *wires) recordPacket(q *object.QP, p *object.Port, kind trace.Kind, k *packetring.Packet) {
	var b [packetring.MaxHead + snap]byte
	n := copy(b[:], k.Head[:k.N])
	n += copy(b[n:n+snap], k.Payload)
	sh.Taps.Record(q.Watched, &trace.Event{Kind: kind, Time: clock.Now(), Queue: q.Num,
		Index: uint16(p.Number), Count: uint16(k.N), Value: uint64(k.N + len(k.Payload)), Data: b[:n]})
}

// RecordLink records whether the link of a port is up.
func (sh *wires) RecordLink(p *object.Port, mask uint32) {
	if mask == 0 {
		return
	}
	e := trace.Event{Kind: trace.KindLink, Time: clock.Now(), Queue: p.Number, Data: []byte(p.Settings.Name)}
	if p.Up {
		e.Value = 1
	}
	sh.Taps.Record(mask, &e)
}

// servePortWatched is servePort while queue pairs of the port are watched, or rules of faults act on their
// packets. No packet takes the path of packets of one line, because that path does not copy the packet.
func (sh *PortServer) servePortWatched(p *object.Port) (done int) {
	for done < PortBatch && p.Left > 0 {
		ok, err := p.Settings.Receive.Next(&p.Packet)
		if err != nil {
			p.Fail(err)
			return done + 1
		}
		if !ok {
			break
		}
		p.Left -= len(p.Packet.Payload) + object.PieceCost
		q, sent := sh.receiverOf(p), p.Settings.Send.Sent()
		if q != nil && q.Watched != 0 && sh.Holds(q.Client.Shard) {
			sh.recordPacket(q, p, trace.KindReceived, &p.Packet)
		}
		if q != nil && q.Faults.OnPackets() && q.Wire != nil && q.Wire.Port == p {
			sh.arrivedFaulty(p, q)
		} else {
			sh.arrived(p)
		}
		if q != nil && !p.Dead {
			sh.RecordSent(q, p, sent)
		}
		p.Left -= sh.TakeEffort()
		done++
		if done == 1 && len(p.ACKs) > 0 {
			sh.acknowledgeAll(p)
		}
	}
	p.Settings.Receive.Free()
	return done
}

// receiverOf returns the queue pair that the packet in p is for, or nil.
func (sh *PortServer) receiverOf(p *object.Port) *object.QP {
	k := &p.Packet
	if k.N < packet.BTHSize {
		return nil
	}
	return p.Find(packet.ParseBTH((*[packet.BTHSize]byte)(k.Head[:])).DestQP)
}
