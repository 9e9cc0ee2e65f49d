//go:build linux && (amd64 || arm64)

package ucx

import "net/netip"

// libucx listens for TCP connections, but not on the network: carrier/gate.c keeps the connections for its
// sockets in the process. Such a socket is called a door. A ticket admits one connection to a door.
const (
	ticketSize = 16
	doorSize   = 20
	maxDoors   = 16 // DOORS of carrier/gate.h
	maxTickets = 32 // TICKETS of carrier/gate.h: how many connections libucx may make to the doors of a peer
)

// A doorName names a door: it is the address at which libucx means to listen (carrier/gate.h).
type doorName [doorSize]byte

// nameOf returns an address as the name of a door.
func nameOf(a netip.AddrPort) (n doorName) {
	ip := a.Addr().Unmap()
	n[1] = 6
	if ip.Is4() {
		n[1] = 4
	}
	be.PutUint16(n[2:], a.Port())
	copy(n[4:], ip.AsSlice())
	return n
}
