package nic

import (
	"io"
	"log/slog"
	"syscall"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/shm"
)

// UnknownUser is the uid in reports about connections whose user is not known. No user has this
// uid.
const UnknownUser = ^uint32(0)

// A Device is the part of an engine that a server in the engine's process uses. All methods
// are safe for concurrent use.
//
// Everything that a server holds for a program is counted for the program's user, so that no
// user can take so much that other users have none left. A uid of a user namespace counts as
// the user to whom /etc/subuid assigns it.
type Device interface {
	// GUID returns a number that no other engine has.
	GUID() uint64

	// DeviceNames returns the names of the devices that clients see at the device's ports.
	DeviceNames() Names

	// AttachLocal returns a client in the device's own process. Such a client gives memory
	// to the device with Client.AddRegion. name is for the log. registers makes the memory of the
	// client's UAR pages, of so many bytes; nil leaves that to the device.
	AttachLocal(name string, registers func(size int) (*shm.Region, error)) (Client, error)

	// Attach returns a client for a program in another process. The client's UAR pages and
	// status page are in memory that the program can map. The client's resources are charged
	// to uid.
	Attach(name string, uid uint32, h Hosted) (Client, error)

	// Choose makes the next object of a kind get this number, if it is free and possible. A replay gives
	// objects the numbers that they had before. Call it directly before the object is made.
	Choose(k Numbered, number uint32)

	// Charge counts the cost c for the user uid. If the user cannot have so much, Charge counts nothing
	// and returns an error of type *control.Error.
	Charge(uid uint32, c Cost) error

	// Incur counts for uid a cost that the user has caused already, such as a connection
	// that was accepted or descriptors that have arrived. It counts the cost even if it
	// returns an error. The error means that the user has clearly more than its share; the
	// caller then gives the resources back with Discard or DiscardConnection.
	Incur(uid uint32, c Cost) error

	// Refund takes back a cost that Charge or Incur has counted.
	Refund(uid uint32, c Cost)

	// Discard closes files that a user has sent and refunds them; each file was counted as
	// one descriptor. A nil file is one that the caller has kept. Closing can block for as
	// long as the user likes. So a goroutine for this user closes the files, and Discard
	// returns at once.
	Discard(uid uint32, files []File)

	// DiscardConnection ends a connection at once. A goroutine for the user closes it
	// later, as with Discard, because it may hold unread descriptors. c is refunded when
	// the connection is closed.
	DiscardConnection(uid uint32, conn Connection, c Cost)

	// Clogged reports whether all goroutines that close connections of the user are blocked,
	// so that the next connection would have to wait for one of them.
	Clogged(uid uint32) bool

	// Backlogged reports whether so many connections wait to be closed that the process
	// could be short of descriptors. While it is true, no more connections should be
	// accepted.
	Backlogged() bool

	// Unpolled reports whether a queue pair of the user has a completion queue with entries
	// that the program has not polled yet. It is false if the user has no such queue pair.
	Unpolled(uid, qpn uint32) bool

	// Aside calls f on a goroutine for this user, because programs of the user may keep f
	// from returning. It waits for at most a tenth of a second and reports whether f has
	// returned. If it returns false, f may still be running.
	Aside(uid uint32, f func()) bool

	// Prepare readies the process for clients in other processes. It starts the helper
	// processes that seal and hold memory, and makes the kernel allocate room for
	// descriptors. A server calls it before it listens. If Prepare returns an error, the
	// server can still serve clients, but clients may be able to delay the end of this
	// process.
	Prepare() error

	// CreateMemory makes size bytes of memory that a program of uid can map, and charges
	// them to uid. The error is of type *control.Error.
	CreateMemory(uid uint32, name string, size int) (*shm.Region, error)

	// CreateSparseMemory is CreateMemory for memory whose mapping the program may enlarge.
	CreateSparseMemory(uid uint32, name string, size int) (*shm.Region, error)

	// MapMemory maps size bytes of a file that a program of uid has made, from offset on. Both
	// are multiples of the page size. The mapping is charged to uid. The file must keep its
	// size. Its pages can go, which delays threads that touch them, so only programs of the
	// device's own user may have memory mapped: they can hold up the device anyway. An error of
	// the kernel's is a syscall.Errno; all others are of type *control.Error.
	MapMemory(uid uint32, f File, offset int64, size int) (*shm.Region, error)

	// JoinMemory maps memory that CreateMemory or MapMemory has made once more: whole pages of sealed
	// regions, at least two parts, one after the other, as one region. The mapping is charged to uid. It
	// keeps the pages when the regions that they are of are released. The error is of type *control.Error,
	// or the kernel's.
	JoinMemory(uid uint32, parts ...[]byte) (*shm.Region, error)

	// CloseMemoryFile closes the descriptor of memory that CreateMemory has made, and refunds
	// the descriptor. Call it when the program has mapped the memory. A second call does
	// nothing.
	CloseMemoryFile(uid uint32, r *shm.Region)

	// ReleaseMemory undoes CreateMemory, MapMemory or JoinMemory. The memory must not be a region of any
	// client.
	ReleaseMemory(uid uint32, r *shm.Region)

	// AddPort gives the device a port to other devices.
	AddPort(cfg PortConfig) (Port, error)

	// SetRouter names who finds paths to other devices: nil for none. Call it again when
	// paths have changed, because the device keeps those that datagrams use.
	SetRouter(r Router)

	// SetPort takes a port of the device down, or up again. While a port is down, nothing reaches its
	// clients or leaves them: requests get no answer and are tried again, messages without acknowledgement
	// are lost. Clients of the port get an event if its state changes. n is less than MaxPorts.
	SetPort(n uint8, up bool)

	// ChangeGID gives a port of the device another GID. Queue pairs that are connected reach their peers
	// no more until they are connected anew. Clients of the port get an event. n is less than MaxPorts.
	ChangeGID(n uint8)

	// PortState returns the state of a port of the device. n is less than MaxPorts.
	PortState(n uint8) PortState

	// PortCounts returns what the clients of each port have sent and received since the device began, those
	// that are gone too: MaxPorts elements, by port. It waits for the end of the device's step, and holds up
	// the device while it goes over all clients once.
	PortCounts() []PortCounts

	// Announced returns what clients of this device announce, sorted by client.
	Announced() []board.Entry

	// OnAnnounce names a function that is called whenever Announced returns something new: nil
	// for none. The function must not wait.
	OnAnnounce(f func())

	// SetAnnounced says what the clients of another device announce, in place of what the same
	// link has said of that device before. An empty list is what a link says when it is down.
	// The device keeps list. SetAnnounced may wait for the device's thread.
	SetAnnounced(link any, guid uint64, list []board.Entry)

	// OnMessage names a function that carries messages of clients to boxes of other devices, from the box of
	// that number; nil: none leave. The function may wait.
	OnMessage(f func(to BoxMessage, from uint64, who User) error)

	// Deliver puts a message, which says who has sent it, into a client's box. It drops the message if there
	// is no such box, or if it is full. The error is that of a dial by a user for whom the client does not
	// listen; the sender is to be told. Deliver may wait for the device's thread.
	Deliver(to uint64, m BoxMessage) error

	// Report writes a line into the device's log, unless there have been too many lines
	// about the user, or about all users together. It does not wait for the log.
	Report(uid uint32, level slog.Level, text string, attrs ...any)

	// MayLog counts a line that a server writes itself. It reports whether the server may
	// write the line, and how many lines were held back since the last line that was
	// written. The argument who stands for the one of the user's programs that the line is
	// about. It is nil if the line is about no program in particular.
	MayLog(uid uint32, who *Speaker) (unsaid int, ok bool)
}

// A Numbered is a kind of objects that have numbers.
type Numbered uint8

// The kinds. The number of a key is the key.
const (
	QP Numbered = iota // queue pairs
	CQ
	SRQ
	Key
)

// A File is a descriptor, such as one that a program has sent (unixsock.Descriptor).
type File interface {
	syscall.Conn
	io.Closer
}

// A Connection is a unix socket that is connected with a program.
type Connection interface {
	syscall.Conn
	io.Closer
}

// The variable of holds the function that package engine has given to Register.
var of func(engine any) Device

// Of returns the device behind an *engine.Engine.
func Of(engine any) Device { return of(engine) }

// Register makes Of call f. Package engine calls Register once, when the package is initialised.
// Without Register, Of could not reach the engine: package engine imports this package, so this
// package cannot import engine.
func Register(f func(engine any) Device) { of = f }
