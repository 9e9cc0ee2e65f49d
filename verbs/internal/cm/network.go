package cm

import "net/netip"

// A Namespace identifies a network namespace. Namespaces are compared with ==.
type Namespace any

// A GID is an address of a port of a device.
type GID [16]byte

// An Entry is an entry of a device's GID table, of type RoCE v2.
type Entry struct {
	GID    GID
	Index  uint8 // in the table
	Device int   // of Config.Devices
}

// A Network knows who has which address, as seen by one program. The addresses are IP
// addresses: one that is IPv4 has 4 bytes, and a GID is the IPv6 address with the same bytes.
// Implementations are safe for concurrent use and do not wait.
type Network interface {
	// Local returns the entry of an address that the program's namespace has. scope is the
	// number of an interface, for an address that more than one interface can have; 0 means
	// any.
	Local(ip netip.Addr, scope uint32) (Entry, bool)

	// Owner returns the namespace that gets what the program sends to an address, and the
	// GID of that address there.
	Owner(ip netip.Addr) (Namespace, GID, bool)
}

// gidOf returns the GID that an IP address has by its form.
func gidOf(ip netip.Addr) GID {
	if !ip.IsValid() {
		return GID{}
	}
	return ip.As16()
}

func (g GID) ip() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// loopback returns the address by which a host reaches itself.
func loopback(family uint16) netip.Addr {
	if family == afINET {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}
