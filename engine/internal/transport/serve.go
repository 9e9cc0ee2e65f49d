//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/linepacket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// A step takes the packets that carriers have given to ports. If it has given packets to a port, it wakes
// that port's carrier.

// ServeColdPorts serves all ports, if there are ports that are not hot. It returns how much there was to do.
func (sh *PortServer) ServeColdPorts() (done int) {
	if sh.HasColdPorts() {
		return sh.ServePorts(true)
	}
	return 0
}

// ServePorts serves the packets of ports, acknowledges them, and lets timers run out. It returns how much
// there was to do. If cold is true, it also serves the ports that are not hot.
func (sh *PortServer) ServePorts(cold bool) (done int) {
	sh.Fault.Part = object.CutRetry
	for i := 0; i < len(sh.Ports); i++ {
		p := sh.Ports[i]
		if !p.Hot && !cold || !p.Up {
			continue // the carrier of a port that is down may be about to reset the rings
		}
		if len(p.Resumed) > 0 {
			sh.resume(p)
			done++
		}
		if p.Settings.Receive.Ready() {
			p.SetHot(true)
			done += max(sh.servePort(p), 1) // a packet whose check sum is wrong is looked at again
		}
		if len(p.ACKs) > 0 {
			sh.acknowledgeAll(p)
		}
		if n := p.Settings.Send.Sent(); n != p.Woken && p.Up {
			p.Woken = n
			if p.Settings.Wake != nil {
				p.WakeCarrier()
			}
		} else {
			p.Idle++
			if p.Idle >= object.MostIdleVisits {
				p.SetHot(false)
			}
		}
	}
	sh.Fault.QP, sh.Fault.Port = nil, nil
	sh.UnlockPeerShard()
	// A look at the timers reads the clock, so only one step in TimerTurns looks if it has not read the
	// clock.
	if sh.Timers.Armed > 0 && (sh.StepClock != 0 || sh.Sched.Turn%TimerTurns == 0) {
		done += sh.ExpireTimers(sh.Now())
		sh.Fault.QP = nil
	}
	sh.Fault.Part = object.CutVisits
	return done
}

// servePort serves packets of the port, at most a batch, and returns how many it has served.
func (sh *PortServer) servePort(p *object.Port) (done int) {
	sh.Fault.Port = p
	sh.Sched.Effort = 0
	p.Left = sh.Settings.Slice
	if p.Watched+sh.DatagramsSeen > 0 {
		return sh.servePortWatched(p)
	}
	for done < PortBatch && p.Left > 0 {
		line, size, empty := p.Settings.Receive.Peek()
		if empty {
			break
		}
		if line == nil || !sh.fastPacket(p, line, size) {
			ok, err := p.Settings.Receive.Next(&p.Packet)
			if err != nil {
				p.Fail(err)
				return done + 1
			}
			if !ok {
				break
			}
			p.Left -= len(p.Packet.Payload) + object.PieceCost
			sh.arrived(p)
			p.Left -= sh.TakeEffort()
		}
		done++
		// The first acknowledgement is sent before the ring is read again. That read may take long, because
		// the line of the next slot may be on its way to the other side's core.
		if done == 1 && len(p.ACKs) > 0 {
			sh.acknowledgeAll(p)
		}
	}
	p.Settings.Receive.Free()
	return done
}

// arrived serves the packet in p: it finds the queue pair, and drops a packet that cannot be for it.
func (sh *PortServer) arrived(p *object.Port) {
	k := &p.Packet
	p.Stats.Received++
	p.Stats.GotBytes += uint64(len(k.Payload))
	if k.N == linepacket.RETHEnd && sh.fastRequest(p) {
		return
	}
	if k.N < packet.BTHSize {
		p.Stats.Malformed++
		return
	}
	p.BTH.Parse((*[packet.BTHSize]byte)(k.Head[:]))
	info := p.BTH.Opcode.Info()
	if !info.Known || k.N != info.HeaderSize || (!info.Payload && len(k.Payload) > 0) ||
		len(k.Payload) > p.Settings.MTU+object.GRHSize || p.BTH.Version != 0 ||
		p.BTH.PKey&0x7fff != object.DefaultPKey&0x7fff {
		p.Stats.Malformed++
		return
	}
	if p.BTH.DestQP == managementQPN {
		sh.deliverManagement(p)
		return
	}
	q := p.Find(p.BTH.DestQP)
	if q == nil {
		p.Stats.UnknownQPs++
		return
	}
	if q.Wire == nil && q.Transport != control.QPTypeUD {
		p.Stats.Strangers++
		return
	}
	// Queue pairs of connections belong to this shard; those for datagrams may belong to another.
	if sh.Several && !sh.Holds(q.Client.Shard) {
		sh.UnlockPeerShard()
		if !sh.LockPeerShard(q.Client.Shard, true) {
			p.Stats.Strangers++
			return
		}
	}
	if !p.LeadsTo(q) {
		p.Stats.Strangers++
		return
	}
	sh.Enter(q)
	q.Client.Traffic.N.Got(datagramPayload(q, len(k.Payload)))
	if p.BTH.Opcode == readOnly && q.Wire != nil &&
		sh.fastResult(p, q, p.Packet.Path, p.BTH.PSN, p.Packet.Payload, false) {
		return
	}
	sh.receive(p, q, info)
}

// datagramPayload returns how many of the n bytes of a packet for q are payload: a datagram begins with
// its GRH.
func datagramPayload(q *object.QP, n int) int {
	if q.Wire == nil {
		n = max(n-object.GRHSize, 0)
	}
	return n
}
