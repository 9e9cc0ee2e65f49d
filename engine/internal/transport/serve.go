//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// A step takes packets from the ports that have some, and wakes the carriers of those to which it has
// given some.

// ServeColdPorts serves the ports that are not hot, and the others, too. It returns how much there was to do.
func (sh *PortServer) ServeColdPorts() (done int) {
	if sh.HasColdPorts() {
		return sh.ServePorts(true)
	}
	return 0
}

// ServePorts takes packets from ports, answers them, and lets timers run out. It returns how much
// there was to do. cold says whether it looks at the ports that are not hot, too.
func (sh *PortServer) ServePorts(cold bool) (done int) {
	sh.Fault.Part = object.CutRetry
	for i := 0; i < len(sh.Ports); i++ {
		p := sh.Ports[i]
		if !p.Hot && !cold || !p.Up {
			continue // if it is down, its carrier may be about to reset the rings
		}
		if p.Settings.Receive.Ready() {
			p.SetHot(true)
			done += sh.servePort(p)
		}
		if len(p.ACKs) > 0 {
			sh.acknowledgeAll(p)
		}
		if n := p.Settings.Send.Sent(); n != p.Woken && p.Up {
			if p.Woken = n; p.Settings.Wake != nil {
				p.WakeCarrier()
			}
		} else if p.Idle++; p.Idle >= object.MostIdleVisits {
			p.SetHot(false)
		}
	}
	sh.Fault.QP, sh.Fault.Port = nil, nil
	sh.UnlockPeerShard()
	// Timers are looked at in some of the steps only, because that reads the clock.
	if sh.Timers.Armed > 0 && (sh.StepClock != 0 || sh.Sched.Turn%TimerTurns == 0) {
		done += sh.ExpireTimers(sh.Now())
		sh.Fault.QP = nil
	}
	sh.Fault.Part = object.CutVisits
	return done
}

// servePort takes packets from the port, up to a batch.
func (sh *PortServer) servePort(p *object.Port) (done int) {
	sh.Fault.Port = p
	sh.Sched.Effort = 0
	for p.Left = sh.Settings.Slice; done < PortBatch && p.Left > 0; {
		if !sh.fastPacket(p) {
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
		// The first acknowledgement does not wait until the ring has been looked at again: the line
		// of the next slot may be on its way to the other side.
		if done == 1 && len(p.ACKs) > 0 {
			sh.acknowledgeAll(p)
		}
	}
	p.Settings.Receive.Free()
	return done
}

// arrived serves one packet.
func (sh *PortServer) arrived(p *object.Port) {
	k := &p.Packet
	p.Stats.Received++
	p.Stats.GotBytes += uint64(len(k.Payload))
	if k.N == rethEnd && sh.fastRequest(p) {
		return
	}
	if k.N < packet.BTHSize {
		p.Stats.Malformed++
		return
	}
	p.BTH.Parse((*[packet.BTHSize]byte)(k.Head[:]))
	info := p.BTH.Opcode.Info()
	if !info.Known || k.N != info.HeaderSize || !info.Payload && len(k.Payload) > 0 ||
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
	if p.BTH.Opcode == readOnly && q.Wire != nil &&
		sh.fastResult(p, q, p.Packet.Path, p.BTH.PSN, p.Packet.Payload, false) {
		return
	}
	sh.receive(p, q, info)
}
