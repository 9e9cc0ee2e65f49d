package nic

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A Client is one client of a device. Close destroys everything that was made through it.
// Its methods are safe for concurrent use; requests are served one at a time. After Close
// the methods return an error or do nothing.
type Client interface {
	// Name returns the client's name in the log. It is the name given to Attach or
	// AttachLocal, and after it, in quotes, the name that the program gave in its Hello.
	Name() string

	// Call serves one request of the control protocol and returns the answer. payload is
	// the part of the request after the header. A refusal is a *control.Error. The caller
	// closes the files Events and Wake of the reply; the client keeps its other descriptors.
	Call(op control.Op, payload []byte) (control.Message, control.Reply, error)

	// CallUnmapped is Call for a request that registers memory of the process that
	// ShareProcess has named. Its addresses are addresses in that process, even if a region
	// covers them, because the process may have mapped something else there since the region
	// was made. If onDemand is true, nothing need be mapped at the addresses before a work
	// request uses them.
	CallUnmapped(op control.Op, payload []byte, onDemand bool) (control.Message, control.Reply, error)

	// AddRegion makes a region of memory that both sides have mapped and sealed already.
	// addr is the client's address of the memory, a multiple of the page size. The region may
	// overlap earlier ones, over which the client has mapped it: later requests with its
	// addresses mean the newest region. The caller still owns the memory.
	AddRegion(addr uint64, mem *shm.Region) (id uint32, err error)

	// AddRegisters adds UAR pages and returns the number of the first. The pages are
	// charged to the client's user and freed when the client is closed. A queue may name
	// one of the pages as soon as mem is sealed.
	AddRegisters(pages int) (first int, mem *shm.Region, err error)

	// ClosePageFiles closes the descriptors of the client's UAR pages and status page. Call
	// it when the program has mapped the pages that it needs. A second call does nothing.
	ClosePageFiles()

	// ShareProcess names the client's process. If memory that is registered from now on is
	// in no region, its addresses are addresses in the client's process. The caller must know from the
	// kernel that the process is the client's (SO_PEERCRED). The process must belong to the
	// device's user, and the device must be allowed to trace it. Queues and doorbell
	// records still need a region.
	ShareProcess(pid int, g Guard) error

	// CompleteList completes a list key, which must be of OpCreateMkey and free.
	CompleteList(key uint32, d ListKey) error

	// Moderate holds events of a CQ back: an event is sent when count completions have come
	// since the program armed the CQ, or when the event has waited for period microseconds.
	// If either is 0, events are sent at once.
	Moderate(cqn uint32, count, period uint16) error

	// JoinXRCD opens an XRC domain that another client has opened by OpOpenXRCD, as if by the
	// same request. The caller decides who may share a domain. OpCloseXRCD closes it.
	JoinXRCD(n uint32) error

	// ResetStream ends the failure of a stream of a DCI in RTS, so that its work requests are
	// executed again. It refuses a stream that has not failed.
	ResetStream(qpn uint32, stream uint16) error

	// Drain executes the work that doorbells have announced on the client's queue pairs
	// and on the queue pairs connected to them. It executes all work that can be executed,
	// except work that takes thousands of visits. Meanwhile other clients have their turns
	// as usual.
	Drain()

	// Retract takes the unread events of a CQ out of its completion channel and returns how
	// many of the CQ's events the program has read. reader is the end of the channel that
	// the program reads; the program may read it during the call. After Retract the device
	// sends no more events of the CQ, because the program is about to release it.
	Retract(cqn uint32, reader File) (read uint32)

	// Forsaken returns the completion channels that no CQ uses and no process can read
	// any more.
	Forsaken() (ids []uint32)

	// SetGIDs sets the client's GID table, of up to MaxGIDs entries. A datagram names its
	// source by an index into this table. The client keeps no reference to table.
	SetGIDs(table []GID) error

	// SetSources says from which addresses the client's datagrams go over links, and at which they come:
	// up to MaxSources, in place of those before. A client has none until then. SetSources does not wait
	// for calls of the client. The client keeps no reference to list.
	SetSources(list []Source) error

	// SetPath says that the peer with which a queue pair is connected next is on another device,
	// and which path leads there. It counts for the next transition to RTR. The zero path means
	// that the peer is on this device.
	SetPath(qpn uint32, to Path) error

	// Join adds a UD queue pair to a multicast group, and Leave takes it out. A datagram to
	// the group is delivered to all its queue pairs, whichever client they belong to. A
	// second Join, or a Leave of a queue pair that is not in the group, does nothing. The
	// destruction of a queue pair takes it out of its groups.
	Join(qpn uint32, group [16]byte, how Membership) error
	Leave(qpn uint32, group [16]byte) error

	// Close destroys everything that the client has made. The client's peers see transport
	// errors; other clients are not affected. A second call does nothing.
	Close() error
}

// A ListKey says about a list key what OpCreateMkey does not.
type ListKey struct {
	// Invalidate lets a SEND with invalidate of a peer empty the list, as it closes a memory
	// window of type 2.
	Invalidate bool

	// Entries are the list, one piece of memory after the other. If there are none, the key stays
	// free until a work request (UMR) fills it. Otherwise the key gives the rights Access
	// (control.Access*) to Length bytes, of which the first has the address Start.
	Entries       []ListEntry
	Access        uint32
	Start, Length uint64
}

// A ListEntry is N bytes of memory, at an address of a key. The key is looked up when the list is used.
type ListEntry struct {
	Key     uint32
	Addr, N uint64
}

// Hosted says how a server's client differs from other clients. The zero value says that it
// does not differ.
type Hosted struct {
	PID           int      // process id of the client's program; 0: unknown
	UARPages      int      // number of UAR pages; 0: as many as other clients have
	GID           [16]byte // GID in the client's datagrams until SetGIDs; zero: the engine's
	LID           uint16   // LID of the client's InfiniBand port; 0: the port is one of RoCE
	Port          uint8    // which of the device's ports the client sees, less than MaxPorts
	PlainChannels bool     // a completion channel yields handles and nothing else
	SameKeys      bool     // memory registered again keeps its key; list keys begin with variant 0
}

// A GID is an entry of a GID table. The zero value is an empty entry.
type GID struct {
	Addr [16]byte
	UDP  bool // whether the entry is one of RoCE v2: an address mapped from IPv4 travels in an IPv4 header
}

// MaxGIDs is the most entries that a GID table has.
const MaxGIDs = 256

// Limits of multicast groups. A datagram to a group takes a visit for each queue pair.
const (
	MaxGroups  = 1 << 10 // of a device
	MaxMembers = 240     // queue pairs of one group
)

// A Membership says what a queue pair receives of a group.
type Membership uint8

// The memberships: a queue pair also receives what it has itself sent to the group, or not.
const (
	ReceivesOwn Membership = iota
	ReceivesOthers
)

// A Guard is 8 bytes in the memory of a process. Their address and value are chosen so that no
// other program has the same bytes there by accident. While the bytes are there, the process
// still executes the program that chose them. Cookie is in the host's byte order.
type Guard struct{ Addr, Cookie uint64 }
