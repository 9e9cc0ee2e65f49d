//go:build linux && (amd64 || arm64)

package cm

import "net/netip"

// A Namespace identifies a network namespace. Namespaces are compared with ==.
type Namespace any

// A GID is an address of a port of a device.
type GID [16]byte

// A PortAddress is how packets reach a port of a device, or a multicast group.
type PortAddress struct {
	GID GID
	LID uint16 // on InfiniBand; 0 on Ethernet
}

// infiniband reports whether the port is one of InfiniBand.
func (p PortAddress) infiniband() bool { return p.LID != 0 }

// An Entry is an entry of a device's GID table: of type RoCE v2, or of an InfiniBand port.
type Entry struct {
	PortAddress
	Index  uint8 // index in the GID table
	Device int   // index in Config.Devices
}

// A Name is what a program calls a port by: an IP address, or a GID in an address of the
// family AF_IB. On Ethernet, a GID is the IPv6 address with the same bytes. An InfiniBand port
// has a GID of its own, and IP addresses lead to it as if IPoIB were there.
type Name struct {
	IP    netip.Addr // one that is IPv4 has 4 bytes
	Scope uint32     // number of an interface, for an address that many can have; 0: any
	IsGID bool       // only a port with that GID is meant
}

// nameOf returns the name of the port that an IP address or GID is of. The loopback address
// is an IP address in every family.
func nameOf(family uint16, ip netip.Addr) Name {
	return Name{IP: ip.Unmap(), IsGID: family == afIB && !ip.Unmap().IsLoopback()}
}

// A Network finds the owners of addresses, as seen by one program. Implementations are safe for
// concurrent use and do not wait.
type Network interface {
	// Local returns the entry of an address that the program's namespace has.
	Local(a Name) (Entry, bool)

	// Owner returns the namespace that gets what the program sends to an address, and the
	// port that has the address there. The namespace is Elsewhere if the port is none of this
	// engine.
	Owner(a Name) (Namespace, PortAddress, bool)
}

// gidOf returns the GID that an IP address has by its form.
func gidOf(ip netip.Addr) GID {
	if !ip.IsValid() {
		return GID{}
	}
	return ip.As16()
}

// name returns the GID as the name of a port.
func (g GID) name() Name { return nameOf(afIB, netip.AddrFrom16(g)) }

// loopback returns the address by which a host reaches itself.
func loopback(family uint16) netip.Addr {
	if family == afINET {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}
