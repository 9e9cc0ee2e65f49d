//go:build linux && (amd64 || arm64)

package cm

import (
	"fmt"
	"net/netip"
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
	// Q_Key 0x80010000. It must not wait long, because a program waits for it. The caller does not
	// change the datagram any more. A datagram that is refused with an error counts as lost.
	SendMAD(from, to PortAddress, mad *MAD) error

	// Home returns the namespace whose programs get the requests for a port of this engine. ip is
	// the IP address that the request names, if it names one. On Ethernet, ip is the address of the
	// port. On InfiniBand, all namespaces have the same GID, and only ip tells them apart.
	Home(to PortAddress, ip netip.Addr) (Namespace, bool)

	// Hold says that a program expects datagrams at an address of this engine until Release of the
	// result is called. For a listener, to is zero. For an id that connects or is connected, to is
	// the port at the other end. A zero GID in at means every address of the namespace. Path is
	// called after Hold.
	Hold(at Address, to PortAddress, p *Program) *Held
}

// A Held is an address at which a program expects datagrams.
type Held struct {
	Release func()
	Covers  func(GID) bool // whether the program gets datagrams that come to this GID over a network
	// Why some of the addresses that the program may mean are not reached over a network; "": all are.
	Missing string
}

// A Path is what is known of the way to a port elsewhere.
type Path struct {
	MTU  uint8 // the largest MTU, as in enum ib_mtu; 0: the MTU of the device
	Rate uint8 // as in enum ib_rate; 0: the rate of the device
}

// Elsewhere is the namespace of the addresses that are not of this engine, but that a Wire leads
// to: all of them are in this one.
var Elsewhere Namespace = elsewhere{}

type elsewhere struct{}

// elsewhere reports whether messages for the address go over the wire.
func (a *Address) elsewhere() bool { return a.Namespace == Elsewhere }

// WireStats count management datagrams since the manager was made.
type WireStats struct {
	Sent       uint64 // datagrams that were sent, each counted once
	Resent     uint64 // datagrams that were sent again, because no answer came
	Unsent     uint64 // datagrams that the wire did not take
	Received   uint64
	Malformed  uint64 // received datagrams that are no messages
	Strangers  uint64 // messages from a sender, or for a receiver, that is not known here
	Duplicates uint64 // messages that had come before
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
	if i := m.links[o.number]; i != nil && !i.link.unsentExplained {
		i.link.unsentExplained = true
		i.explain("a message to the other end of id %d is not sent: %v", i.handle, err)
	}
}
