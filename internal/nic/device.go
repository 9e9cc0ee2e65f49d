package nic

import (
	"log/slog"
	"net"
	"os"

	"github.com/nicless/nicless/internal/shm"
)

// Nobody is the uid in reports about connections whose user is not known. No user has
// it.
const Nobody = ^uint32(0)

// A Device is an engine as a server in its process uses it. All methods are safe for
// concurrent use.
//
// Everything that a server holds for a program is counted for the program's user, so
// that no user can have so much that none is left for others. A uid of a user namespace
// counts as the user to whom /etc/subuid gives it.
type Device interface {
	// GUID returns the number that tells this engine from others.
	GUID() uint64

	// AttachLocal returns a client that is part of the device's own process. Memory
	// comes to the device by Client.AddRegion. name is for the log.
	AttachLocal(name string) (Client, error)

	// Attach returns a client for a program in another process. Its pages are in memory
	// that can be mapped there, and uid pays for what it takes.
	Attach(name string, uid uint32, h Hosted) (Client, error)

	// Charge counts c for uid, all of it. It is an error, of type *control.Error, if the
	// user cannot have so much; then nothing is counted.
	Charge(uid uint32, c Cost) error

	// Incur counts for uid what the user has caused already, such as a connection that
	// was accepted or descriptors that have arrived. It is counted also if there is an
	// error. The error means that the user has clearly more than its share; the caller
	// gives it back by Discard or DiscardConnection.
	Incur(uid uint32, c Cost) error

	// Refund takes back what Charge or Incur has counted.
	Refund(uid uint32, c Cost)

	// Discard closes files that a user has sent, each counted as one descriptor, and
	// refunds them. Closing can block for as long as the user likes: a goroutine of the
	// user's does it, and Discard returns at once.
	Discard(uid uint32, files []*os.File)

	// DiscardConnection ends a connection at once, and closes it as Discard does, since
	// descriptors may lie in it unread. c is refunded when it is closed.
	DiscardConnection(uid uint32, conn *net.UnixConn, c Cost)

	// Clogged reports whether as many connections of the user are stuck in being closed
	// as there are goroutines for them, so that the next would wait behind those.
	Clogged(uid uint32) bool

	// Backlogged reports whether so many connections wait to be closed that the process
	// could be short of descriptors. Until they are closed no more should be accepted.
	Backlogged() bool

	// Aside calls f on a goroutine of the user's, whose programs may keep f from
	// returning. It waits for a tenth of a second and reports whether f has returned by
	// then; otherwise f may still be running.
	Aside(uid uint32, f func()) bool

	// Prepare readies the process for clients in other processes: it starts the helper
	// processes that seal and hold memory, and has the kernel make room for descriptors.
	// A server calls it before it listens. After an error clients can be served, but may
	// be able to delay the end of this process.
	Prepare() error

	// CreateMemory makes size bytes of memory for uid's program to map, and charges
	// them. The error is of type *control.Error.
	CreateMemory(uid uint32, name string, size int) (*shm.Region, error)

	// ForgetMemory closes the descriptor of memory that CreateMemory has made, when the
	// program has mapped it, and refunds the descriptor. A second call does nothing.
	ForgetMemory(uid uint32, r *shm.Region)

	// ReleaseMemory undoes CreateMemory. No client may have the memory as a region.
	ReleaseMemory(uid uint32, r *shm.Region)

	// Report writes a line into the device's log, unless there have been too many lines
	// about the user, or about all users. It does not wait for the log.
	Report(uid uint32, level slog.Level, text string, attrs ...any)

	// MaySay counts a line for a server that writes it itself. It reports whether the
	// line may be written, and how many were held back since the last one. who is the
	// one of several programs of the user that the line is about; nil: none.
	MaySay(uid uint32, who *Speaker) (unsaid int, ok bool)
}

// of is set by package engine.
var of func(engine any) Device

// Of returns the device behind an *engine.Engine.
func Of(engine any) Device { return of(engine) }

// Register has Of call f. Package engine calls it once, when it is initialised: this
// package cannot import engine, which implements its interfaces.
func Register(f func(engine any) Device) { of = f }
