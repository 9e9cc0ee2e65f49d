//go:build linux && (amd64 || arm64)

package cm

import (
	"fmt"
	"net/netip"
	"slices"
)

// A Wire carries management datagrams between queue pairs 1 of this engine's ports and of ports
// elsewhere: of other engines, and of hosts with other devices. Datagrams can be lost, doubled and
// overtake each other. Implementations are safe for concurrent use. All methods but SendMAD are
// called under the manager's lock: they do not wait, and do not call the manager.
type Wire interface {
	// Path returns the path from an address of this engine to a port elsewhere, for a program. The
	// error says why there is none.
	Path(from Address, to PortAddress, p *Program) (Path, error)

	// SendMAD sends a datagram: as a UD packet from queue pair 1 to queue pair 1 with the
	// Q_Key 0x80010000. It may wait a little: a program waits for it. The caller does not change
	// the datagram any more. After an error it is treated as one that was lost.
	SendMAD(from, to PortAddress, mad *MAD) error

	// Home returns the namespace whose programs get the requests for a port of this engine. ip
	// is the IP address that the request names, if it names one: the port's address on Ethernet;
	// on InfiniBand, where all namespaces have one GID, the only difference between them.
	Home(to PortAddress, ip netip.Addr) (Namespace, bool)

	// Hold says that a program expects datagrams at an address of this engine, until Release of the
	// result is called: with a listener, for which to is zero, or with an id that is about to connect,
	// or is connected, to the port to elsewhere. A GID that is zero means every address of the
	// namespace. Path is asked after that.
	Hold(at Address, to PortAddress, p *Program) *Held
}

// A Held is an address at which a program expects datagrams.
type Held struct {
	Release func()
	Covers  func(GID) bool // whether datagrams that come to an address over a network are for it
	// Why the program is not reached over a network at an address that it may mean; "": it is.
	Missing string
}

// A Path is what is known of the way to a port elsewhere.
type Path struct {
	MTU  uint8 // the largest one, as in enum ib_mtu; 0: that of the device
	Rate uint8 // as in enum ib_rate; 0: that of the device
}

// Elsewhere is the namespace of the addresses that are not of this engine, but that a Wire leads
// to: all of them are in this one.
var Elsewhere Namespace = elsewhere{}

type elsewhere struct{}

// elsewhere reports whether messages for the address go over the wire.
func (a *Address) elsewhere() bool { return a.Namespace == Elsewhere }

// WireStats count management datagrams since the manager was made.
type WireStats struct {
	Sent       uint64 // without those that were sent again
	Resent     uint64 // for want of an answer
	Unsent     uint64 // that the wire did not take
	Received   uint64
	Malformed  uint64 // that are no messages
	Strangers  uint64 // from a sender, or for a receiver, that is not known here
	Duplicates uint64 // that had come before
	// Requests that were dropped, because their address has sent too many, or too many wait for one listener.
	OverBudget uint64
	Refused    uint64 // requests that asked for what cannot be, or came when too many waited
}

// WireStats returns the counts.
func (m *Manager) WireStats() WireStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// hold notifies the wire that datagrams are expected at an address. No other host reaches a loopback address.
func (i *id) hold(at Address, to PortAddress) *Held {
	if i.m.Wire == nil || netip.AddrFrom16(at.GID).Unmap().IsLoopback() {
		return &Held{Release: func() {}, Covers: func(GID) bool { return false }}
	}
	return i.m.Wire.Hold(at, to, i.program)
}

// pathTo returns the path to a port elsewhere.
func (i *id) pathTo(from Address, to PortAddress) (Path, error) {
	if i.m.Wire == nil {
		return Path{}, fmt.Errorf("no link leads to other engines")
	}
	return i.m.Wire.Path(from, to, i.program)
}

// transmit sends a message over the wire.
func (m *Manager) transmit(p Packet) error {
	if m.Wire == nil {
		return fmt.Errorf("no link leads to other engines")
	}
	m.leaving = append(m.leaving, outgoing{p.From.PortAddress, p.To.PortAddress, newMAD(p.TID, p.Message),
		p.Message.from()})
	return nil
}

// An outgoing datagram waits for the end of the command.
type outgoing struct {
	from, to PortAddress
	mad      *MAD
	number   linkNumber // of the link that sends it; 0: none
}

// unsent notes that the wire has not taken a datagram.
func (m *Manager) unsent(o outgoing, err error) {
	m.counts.Unsent++
	if i := m.links[o.number]; i != nil && !i.link.mute {
		i.link.mute = true
		i.explain("a message to the other end of id %d is not sent: %v", i.handle, err)
	}
}

// ReceiveMAD takes a datagram that has arrived at queue pair 1 of a port of this engine, from queue
// pair 1 of a port elsewhere, which is named as Network.Owner names it. b can have any contents; it
// is read once, and not kept. network says that it has come over a network, from which anybody can send.
// ReceiveMAD sends answers before it returns.
func (m *Manager) ReceiveMAD(from, to PortAddress, b []byte, network bool) {
	var tid uint64
	var msg Message
	err := fmt.Errorf("%d bytes", len(b))
	if len(b) == MADSize {
		mad := MAD(slices.Clone(b))
		tid, msg, err = parseMAD(&mad)
	}
	m.mu.Lock()
	defer m.unlock()
	m.counts.Received++
	if err != nil {
		m.counts.Malformed++
		return
	}
	m.receiveFar(Packet{From: Address{Elsewhere, from}, To: Address{nil, to}, TID: tid, Message: msg},
		network)
}

// reachable reports whether a request from elsewhere may be for an id. A listener is reached at the addresses
// on which it listens only, wherever else packets come in because of other programs, and a request names
// the address to which it was sent.
func (i *id) reachable(r *request, dst *sockaddr) bool {
	to := r.packet.To.PortAddress
	switch {
	case !r.packet.From.elsewhere():
		return true
	case i.state == listening && r.network && !i.held.Covers(to.GID):
		return false
	}
	return i.src.family == afIB || dst.family == 0 || to.infiniband() || gidOf(dst.addr) == to.GID
}

// CountMalformed counts a packet that was no datagram.
func (m *Manager) CountMalformed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Received++
	m.counts.Malformed++
}

// receiveFar takes a message from elsewhere.
func (m *Manager) receiveFar(p Packet, network bool) {
	switch msg := p.Message.(type) {
	case *REQ:
		m.receiveFarRequest(&request{packet: p, from: msg.From, service: msg.Service, data: msg.Data[:],
			connect: msg, network: network})
		return
	case *SIDRREQ:
		m.receiveFarRequest(&request{packet: p, from: msg.From, service: msg.Service, data: msg.Data[:],
			network: network})
		return
	case *REJ:
		if msg.To == 0 {
			m.withdrawnFar(p, msg)
			return
		}
	}
	i := m.links[p.Message.to()]
	if i == nil || i.link.other != p.From || i.link.self.PortAddress != p.To.PortAddress {
		m.unknown(p)
		return
	}
	if !i.link.receiveFar(p) {
		m.counts.Strangers++
	}
}

// withdrawnFar takes a request back for its sender, which knows the id of its transaction.
func (m *Manager) withdrawnFar(p Packet, msg *REJ) {
	from := remote{p.From, msg.From}
	known, tid := false, uint64(0) // the transaction of the request, if there is one from this sender
	if i := m.peers[from]; i != nil {
		known, tid = true, i.link.tid
	} else if r := m.waiting[from]; r != nil {
		known, tid = true, r.packet.TID
	}
	if known && tid != p.TID {
		m.counts.Strangers++
		return
	}
	m.withdrawn(from, msg)
}

// unknown answers a message for a link that is not here any more, or never was: so that the sender
// does not wait for this end.
func (m *Manager) unknown(p Packet) {
	m.counts.Strangers++
	back := Packet{From: p.To, To: p.From, TID: p.TID}
	switch msg := p.Message.(type) {
	case *DREQ:
		back.Message = &DREP{From: msg.To, To: msg.From}
	case *REP:
		back.Message = &REJ{From: msg.To, To: msg.From, Refused: aboutREP, Reason: rejNumber}
	default:
		return
	}
	m.counts.Sent++
	_ = m.carrier.Carry(back)
}

// receiveFarRequest finds the namespace that a request from elsewhere is for.
func (m *Manager) receiveFarRequest(r *request) {
	if m.peers[r.sender()] == nil && m.waiting[r.sender()] == nil && !m.admit(r.packet.From.PortAddress) {
		m.counts.OverBudget++
		return
	}
	_, dst := parseIPHeader(r.data, r.service)
	home := m.Wire != nil
	if home {
		r.packet.To.Namespace, home = m.Wire.Home(r.packet.To.PortAddress, dst.addr.Unmap())
	}
	if !home {
		m.counts.Strangers++
		return
	}
	m.receiveRequest(r)
}

// maxMTU is the largest MTU of a path: 4096 bytes (enum ib_mtu).
const maxMTU = 5

// misfit returns why a connection of a listener that is asked for from elsewhere cannot be, and the reason
// for the sender; "" if it can be.
func (i *id) misfit(r *request) (why string, reason rejectReason) {
	q, from, to := r.connect, r.packet.From.PortAddress, r.packet.To.PortAddress
	if q == nil || !r.packet.From.elsewhere() {
		return "", 0
	}
	path, err := i.pathTo(r.packet.To, from)
	otherGIDs := q.Path.LocalGID != from.GID || q.Path.RemoteGID != to.GID
	otherLID := from.infiniband() && q.Path.LocalLID != from.LID
	tooLong := path.MTU != 0 && q.MTU > path.MTU
	switch {
	case q.QPType == 0:
		return "it is for a transport that is not known here", rejTransport
	case otherGIDs || otherLID:
		return "the addresses in it are not those of its packet", rejGID
	case err != nil:
		return err.Error(), rejGID
	case q.MTU == 0 || q.MTU > maxMTU || tooLong:
		return fmt.Sprintf("its MTU is %d, and that of the path to it is %d (numbers of enum ib_mtu)", q.MTU, path.MTU), rejMTU
	}
	return "", 0
}
