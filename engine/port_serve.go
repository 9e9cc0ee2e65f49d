//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
)

// What a step does with ports: it takes packets from those that have some, and wakes the carriers
// of those that it has given some.

// setHot says whether p is polled in each step. Nothing has come or gone in the last mostIdleVisits
// polls of a port that is not hot. Such a port is polled in one of hintTurns steps, and before the
// shard waits, so a shard whose links are idle takes its steps as if it had none.
func (p *port) setHot(hot bool) {
	p.idle = 0
	switch {
	case hot && !p.hot:
		p.sh.hotPorts++
	case !hot && p.hot:
		p.sh.hotPorts--
	}
	p.hot = hot
}

// A portServer serves ports.
type portServer struct{ sender }

// serveColdPorts serves the ports that are not hot, and the others, too. It returns how much there was to do.
func (sh *portServer) serveColdPorts() (done int) {
	if sh.hotPorts < len(sh.ports) {
		return sh.servePorts(true)
	}
	return 0
}

// servePorts takes packets from ports, answers them, and lets timers run out. It returns how much
// there was to do. cold says whether it looks at the ports that are not hot, too.
func (sh *portServer) servePorts(cold bool) (done int) {
	sh.fault.part = cutRetry
	for i := 0; i < len(sh.ports); i++ {
		p := sh.ports[i]
		if !p.hot && !cold || !p.up {
			continue // if it is down, its carrier may be about to reset the rings
		}
		if p.cfg.Receive.Ready() {
			p.setHot(true)
			done += sh.servePort(p)
		}
		if len(p.acks) > 0 {
			sh.acknowledgeAll(p)
		}
		if n := p.cfg.Send.Sent(); n != p.woken && p.up {
			if p.woken = n; p.cfg.Wake != nil {
				p.wakeCarrier()
			}
		} else if p.idle++; p.idle >= mostIdleVisits {
			p.setHot(false)
		}
	}
	sh.fault.qp, sh.fault.port = nil, nil
	sh.unlockPeerShard()
	// Timers are looked at in some of the steps only, because that reads the clock.
	if sh.timers.armed > 0 && (sh.ticks != 0 || sh.sched.turn%timerTurns == 0) {
		done += sh.expireTimers(sh.now())
		sh.fault.qp = nil
	}
	sh.fault.part = cutVisits
	return done
}

// serve takes packets from the port, up to a batch.
func (sh *portServer) servePort(p *port) (done int) {
	sh.fault.port = p
	sh.sched.effort = 0
	for p.left = sh.cfg.slice; done < portBatch && p.left > 0; {
		if !sh.fastPacket(p) {
			ok, err := p.cfg.Receive.Next(&p.packet)
			if err != nil {
				p.fail(err)
				return done + 1
			}
			if !ok {
				break
			}
			p.left -= len(p.packet.Payload) + pieceCost
			sh.arrived(p)
			p.left -= sh.takeEffort()
		}
		done++
		// The first acknowledgement does not wait until the ring has been looked at again: the line
		// of the next slot may be on its way to the other side.
		if done == 1 && len(p.acks) > 0 {
			sh.acknowledgeAll(p)
		}
	}
	p.cfg.Receive.Free()
	return done
}

// arrived serves one packet.
func (sh *portServer) arrived(p *port) {
	k := &p.packet
	p.stats.Received++
	p.stats.GotBytes += uint64(len(k.Payload))
	if k.N == rethEnd && sh.fastRequest(p) {
		return
	}
	if k.N < packet.BTHSize {
		p.stats.Malformed++
		return
	}
	p.bth.Parse((*[packet.BTHSize]byte)(k.Head[:]))
	info := p.bth.Opcode.Info()
	if !info.Known || k.N != info.HeaderSize || !info.Payload && len(k.Payload) > 0 || len(k.Payload) > p.cfg.MTU+grhSize || p.bth.Version != 0 || p.bth.PKey&0x7fff != defaultPKey&0x7fff {
		p.stats.Malformed++
		return
	}
	if p.bth.DestQP == managementQPN {
		sh.deliverManagement(p)
		return
	}
	q := p.find(p.bth.DestQP)
	if q == nil {
		p.stats.UnknownQPs++
		return
	}
	if q.wire == nil && q.transport != control.QPTypeUD {
		p.stats.Strangers++
		return
	}
	// Queue pairs of connections belong to this shard; those for datagrams may belong to another.
	if sh.several && !sh.holds(q.client.shard) {
		sh.unlockPeerShard()
		if !sh.lockPeerShard(q.client.shard, true) {
			p.stats.Strangers++
			return
		}
	}
	if !p.leadsTo(q) {
		p.stats.Strangers++
		return
	}
	sh.enter(q)
	if p.bth.Opcode == readOnly && q.wire != nil && sh.fastResult(p, q, p.packet.Path, p.bth.PSN, p.packet.Payload, false) {
		return
	}
	sh.receive(p, q, info)
}

// asks reports whether the packet that is being served is a request, not an answer.
func (p *port) asks() bool {
	return p.packet.N >= packet.BTHSize && packet.ParseBTH((*[packet.BTHSize]byte)(p.packet.Head[:])).Opcode.Info().Request
}

// find returns the queue pair with this number: nil if there is none.
func (p *port) find(n uint32) *qp {
	q := p.known[n%portCache]
	if q == nil || q.num != n || q.dead {
		if q = p.sh.qps[n]; q != nil {
			p.known[n%portCache] = q
		}
	}
	return q
}

// leadsTo reports whether packets of this port may be for q.
func (p *port) leadsTo(q *qp) bool {
	w := q.wire
	if w == nil {
		return q.listens()
	}
	return w.port == p && (q.listens() || w.in.fatal != 0)
}

// reserve returns the memory of the next packet, as Producer.Reserve does. If there is no room, the
// shard looks again soon.
func (p *port) reserve(head, n int) (h, payload []byte, ok bool) {
	if h, payload, ok = p.cfg.Send.Reserve(head, n); !ok {
		p.sh.ringFull = true
	}
	return h, payload, ok
}

// sent notes that packets were sent, with payloads of so many bytes together.
func (p *port) sent(packets, bytes int) {
	if p.idle = 0; !p.hot {
		p.setHot(true)
	}
	p.stats.Sent += uint64(packets)
	p.stats.Bytes += uint64(bytes)
}

// publish sends the packet that was reserved.
func (p *port) publish(path uint32, n int) {
	p.cfg.Send.Publish(path)
	p.sent(1, n)
}
