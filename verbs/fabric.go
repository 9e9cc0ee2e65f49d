//go:build linux && (amd64 || arm64)

package verbs

import (
	"net/netip"

	"github.com/nicless/nicless/internal/nic"
)

// A Fabric leads from this server's devices to ports elsewhere: of other engines, and of hosts with
// other devices. Its methods are safe for concurrent use. Only SendManagement and Path may wait.
type Fabric interface {
	// Find returns the port that has an address, if a link can lead there. name is the IP
	// address by which a program calls the port, or the port's GID.
	Find(name netip.Addr) (to RemotePort, ok bool)

	// MTU returns the most bytes of payload in a packet to a port, 0 if that is not known. The
	// error says why there is no path.
	MTU(to RemotePort) (bytes int, err error)

	// Hold says that programs expect packets at a GID of this server's devices, until release is
	// called. A zero GID means all of them.
	Hold(gid [16]byte) (release func())

	// SendManagement sends a packet to queue pair 1 of a port. head is its BTH and DETH, payload
	// a management datagram, and grh the GRH, for links that do not make one. The slices are not
	// kept.
	SendManagement(to RemotePort, head, grh, payload []byte) error

	// Path returns the path to a port for a queue pair. class and hops are those of the address
	// vector. The path, and the GID from which the queue pair sends, are held until release is
	// called. Path may wait.
	Path(to RemotePort, class, hops uint8) (path nic.Path, release func(), err error)

	// SetLocal names who knows the GIDs and LIDs of this server's ports. f takes locks of the
	// server's tables of addresses and does not wait.
	SetLocal(f func(gid [16]byte, lid uint16) bool)

	// SetAddresses says which addresses this server's ports have, in all namespaces, in place of
	// those before: the ports' own first. Links without a network of their own tell them to
	// their peers. From is not used. The slice is not changed any more. SetAddresses does not wait.
	SetAddresses(list []RemotePort)

	// SetManagement names who is given the packets for queue pair 1: from the BTH on, and with
	// the 40 bytes of the GRH before the payload. The source in the GRH is the address from which
	// the packet has come: the fabric has compared it with the path. nil means nobody.
	SetManagement(f func(packet []byte))
}

// A RemotePort is a port elsewhere.
type RemotePort struct {
	GID  [16]byte
	LID  uint16   // on InfiniBand; 0 on Ethernet
	From [16]byte // GID of the device that asks; zero if that is open
}
