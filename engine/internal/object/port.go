//go:build linux && (amd64 || arm64)

package object

import (
	"log/slog"
	"slices"

	"github.com/nicless/nicless/engine/internal/pagefault"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
)

// Retire takes the port away from its shard. Its queue pairs find it dead.
func (p *Port) Retire() {
	p.Dead, p.Up, p.Stats.Up = true, false, false
	p.SetHot(false)
	p.Shard.Ports = slices.DeleteFunc(p.Shard.Ports, func(o *Port) bool { return o == p })
	p.Shard.PortChanges++
}

// Fail is called when the other side has written into the ring something that cannot be right.
func (p *Port) Fail(err error) {
	p.Retire()
	p.Shard.Journal.Log(slog.LevelError, "a link is given up: its ring holds what no packet can be", "link", p.Settings.Name, "error", err.Error())
	if p.Settings.Failed != nil {
		go p.Settings.Failed(err)
	}
}

const DefaultPKey = 0xffff

// The memory of a port's rings, and the words by which a carrier and the device wake each other, can
// lose their pages at any time: a pool is a file that every node can make shorter. Then the port is
// given up. RecoverFault treats faults while packets are served, FailAfterFault all others.

// FailAfterFault gives p up if the deferring function has touched memory without pages.
func (p *Port) FailAfterFault() {
	if r := recover(); r != nil {
		addr, ok := pagefault.Of(r)
		if !ok {
			panic(r)
		}
		p.Fail(nic.LostMemory(addr))
	}
}

// WakeCarrier calls PortConfig.Wake.
func (p *Port) WakeCarrier() {
	defer p.FailAfterFault()
	p.Settings.Wake()
}

func (p *Port) ReportAsleep(asleep bool) {
	defer p.FailAfterFault()
	if p.Settings.Asleep != nil {
		p.Settings.Asleep(asleep)
	}
}

// FreePackets is PortServer.FreePackets for one port. Its ring may be what the fault was about, or be lost,
// too.
func (p *Port) FreePackets() {
	defer p.FailAfterFault()
	p.Settings.Receive.Free()
}

// SetHot says whether p is polled in each step. No packet has come or gone in the last
// MostIdleVisits polls of a port that is not hot. Such a port is polled in one of ArmRoundSteps steps,
// and before the shard waits, so a shard whose links are idle takes its steps as if it had none.
func (p *Port) SetHot(hot bool) {
	p.Idle = 0
	switch {
	case hot && !p.Hot:
		p.Shard.HotPorts++
	case !hot && p.Hot:
		p.Shard.HotPorts--
	}
	p.Hot = hot
}

// ServesRequest reports whether the packet that is being served is a request, not an answer.
func (p *Port) ServesRequest() bool {
	return p.Packet.N >= packet.BTHSize &&
		packet.ParseBTH((*[packet.BTHSize]byte)(p.Packet.Head[:])).Opcode.Info().Request
}

// Find returns the queue pair with this number: nil if there is none.
func (p *Port) Find(n uint32) *QP {
	q := p.known[n%portCache]
	if q == nil || q.Num != n || q.Dead {
		if q = p.Shard.QPs[n]; q != nil {
			p.known[n%portCache] = q
		}
	}
	return q
}

// LeadsTo reports whether packets of this port may be for q.
func (p *Port) LeadsTo(q *QP) bool {
	w := q.Wire
	if w == nil {
		return q.Listens()
	}
	return w.Port == p && (q.Listens() || w.In.Fatal != 0)
}

// Reserve returns the memory of the next packet, as Producer.Reserve does. If there is no room, the
// shard looks again soon.
func (p *Port) Reserve(head, n int) (h, payload []byte, ok bool) {
	if h, payload, ok = p.Settings.Send.Reserve(head, n); !ok {
		p.Shard.RingFull = true
	}
	return h, payload, ok
}

// Sent notes that packets were sent, whose payloads together have the given number of bytes.
func (p *Port) Sent(packets, bytes int) {
	p.Idle = 0
	if !p.Hot {
		p.SetHot(true)
	}
	p.Stats.Sent += uint64(packets)
	p.Stats.Bytes += uint64(bytes)
}

// Publish sends the packet that was reserved.
func (p *Port) Publish(path uint32, n int) {
	p.Settings.Send.Publish(path)
	p.Sent(1, n)
}

// Took takes the packet that fastPacket serves from the ring; n is the length of its payload.
func (p *Port) Took(n int) {
	p.Settings.Receive.Skip()
	p.Stats.Received++
	p.Stats.GotBytes += uint64(n)
}

// MTUOf returns the payload of a full packet of a queue pair with this path MTU.
func (p *Port) MTUOf(pathMTU uint8, most int) uint32 {
	n := p.Settings.MTU
	if most > 0 {
		n = min(n, most)
	}
	if !p.Settings.Jumbo {
		n = min(n, 128<<min(max(pathMTU, 1), 5))
	}
	return uint32(n)
}

// Window returns how many packets may be on the way without an acknowledgement.
func (p *Port) Window(mtu uint32) uint32 {
	n := uint32(losslessWindow)
	if p.Settings.Window > 0 {
		n = uint32(p.Settings.Window)
	}
	return max(n/mtu, recovery.Least)
}

const (
	losslessWindow = 8 << 20 // bytes on the way, if no packets are lost
	MostAnswers    = 32      // answers to READs and atomics that are due from one queue pair
)
