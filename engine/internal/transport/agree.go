//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/packet"
)

// The two ends of a path agree on reports by management datagrams (recovery.Agreement), which other devices
// pass over.

const (
	managementHead = packet.BTHSize + packet.DETHSize
	managementKey  = 0x80010000 // the Q_Key of queue pair 1
)

// queryPeer asks the other end of a path whether it understands reports, if it is not known and it is time
// to.
func (sh *wires) queryPeer(p *object.Port, path *recovery.Path) {
	if path.Agreed || !p.Up {
		return
	}
	if mad, ok := path.Query(sh.Now()); ok {
		sendMAD(p, path.To, &mad)
	}
}

// confirmPeer asks the other end again, because it has sent a packet that shows a loss.
func (sh *wires) confirmPeer(p *object.Port, path *recovery.Path) {
	if !path.Agreed || !p.Up {
		return
	}
	if mad, ok := path.Confirm(sh.Now()); ok {
		sendMAD(p, path.To, &mad)
	}
}

// takeAgreement serves the packet for queue pair 1 in p, if it is a question of the other end of a path, or
// the answer. It reports whether it is. Only ends whose queue pairs are connected are answered.
func (sh *PortServer) takeAgreement(p *object.Port) bool {
	k := &p.Packet
	if k.N != managementHead || len(k.Payload) != object.GRHSize+recovery.MADSize {
		return false
	}
	var mad [recovery.MADSize]byte
	copy(mad[:], k.Payload[object.GRHSize:])
	asks, number, ok := recovery.ParseMAD(mad[:])
	if !ok {
		return false
	}
	path := p.Paths.Used(k.Path)
	switch {
	case path == nil:
	case asks:
		back := recovery.AnswerTo(number)
		sendMAD(p, path.To, &back)
		sh.queryPeer(p, path) // the question of this end may have come there too early
	default:
		path.Answered(number, recovery.ReachOf(&mad), sh.Now())
	}
	return true
}

// sendMAD sends a management datagram. If the ring has no room, it is lost, as on any network.
func sendMAD(p *object.Port, path uint32, mad *[recovery.MADSize]byte) {
	grh := 0
	if p.Settings.GRH {
		grh = object.GRHSize
	}
	h, payload, ok := p.Reserve(managementHead, grh+len(mad))
	if !ok {
		return
	}
	op := packet.MakeOpcode(packet.UD, packet.SendOnly)
	bth := packet.BTH{Opcode: op, Migrated: true, PKey: object.DefaultPKey, DestQP: managementQPN}
	bth.Put((*[packet.BTHSize]byte)(h))
	packet.DETH{QKey: managementKey, SrcQP: managementQPN}.Put((*[packet.DETHSize]byte)(h[packet.BTHSize:]))
	clear(payload[:grh])
	copy(payload[grh:], mad[:])
	p.Publish(path, grh+len(mad))
}
