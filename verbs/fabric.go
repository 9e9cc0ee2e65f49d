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

	// Ports returns the InfiniBand ports of other engines that links know now: those that work first, and
	// no other order. Peers state them, so two can have the same LID or GID. The slice is the caller's.
	Ports() []LinkedPort

	// MTU returns the most bytes of payload in a packet to a port, 0 if that is not known. The
	// error says why there is no path.
	MTU(to RemotePort) (bytes int, err error)

	// Hold says that a program expects packets at GIDs of this server's devices. wildcard means
	// that the program has named none: it listens on all addresses, and the list has those of
	// its namespace. why is for people.
	Hold(gids [][16]byte, wildcard bool, why string, who nic.User) Reach

	// May says whether a program may send to a port, and take packets at to.From. network says that
	// the way is RoCE, by which strangers can send to that address, too. The error wraps
	// nic.ErrDenied if the user may not.
	May(to RemotePort, who nic.User) (network bool, err error)

	// SendManagement sends a packet to queue pair 1 of a port. head is its BTH and DETH, payload
	// a management datagram, and grh the GRH, for links that do not make one. The slices are not
	// kept.
	SendManagement(to RemotePort, head, grh, payload []byte) error

	// Path returns the path to a port for a queue pair. class and hops are those of the address
	// vector. The path, and the GID from which the queue pair sends, are held until release is
	// called. The error wraps nic.ErrDenied if the user may not have it. Path may wait.
	Path(to RemotePort, class, hops uint8, who nic.User) (path nic.Path, release func(), err error)

	// SetLocal sets the function that finds the GIDs and LIDs of this server's ports. f takes
	// locks of the server's tables of addresses and does not wait.
	SetLocal(f func(gid [16]byte, lid uint16) bool)

	// SetAddresses sets the addresses of this server's ports, in all namespaces, in place of those before:
	// the ports' own first. Links without a network of their own announce them to their peers. From is not
	// used. The slice is not changed any more. SetAddresses does not wait.
	SetAddresses(list []RemotePort)

	// SetManagement sets the receiver of the packets for queue pair 1: from the BTH on, and with the 40 bytes
	// of the GRH before the payload. The source in the GRH is the address from which the packet has come: the
	// fabric has compared it with the path. network means that the packet has come by RoCE. nil means that
	// there is none.
	SetManagement(f func(packet []byte, network bool))

	// SetNotes sets a function that adds sentences to the report about links: what this server has not done
	// for strangers. nil means that there is none.
	SetNotes(f func() []string)
}

// A Reach is the result of Hold.
type Reach struct {
	Release func()     // ends what Hold began
	GIDs    [][16]byte // the GIDs at which packets come to the program by RoCE
	// Which other addresses the program may mean, and why RoCE is not open there; nil: none.
	Missing error
}

// A RemotePort is a port elsewhere.
type RemotePort struct {
	GID  [16]byte
	LID  uint16   // on InfiniBand; 0 on Ethernet
	From [16]byte // GID of the device that asks; zero if that is open
}

// A LinkedPort is an InfiniBand port of another engine, to which a link leads.
type LinkedPort struct {
	RemotePort        // with a LID, and without From
	Engine     uint64 // GUID of that engine
	Name       string // of that engine, by which the link calls it; bytes of a peer
	Up         bool   // the link works
}
