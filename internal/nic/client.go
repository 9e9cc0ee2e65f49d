package nic

import (
	"os"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A Client is one client of a device. Everything that is made through it dies with it.
// Its methods are safe for concurrent use; requests are served one at a time. After Close
// they return an error, or do nothing.
type Client interface {
	// Name returns the client's name in the log: the one that it was attached with, then
	// in quotes the one that its program gave in hello.
	Name() string

	// Call serves one request of the control protocol and returns the answer. payload
	// is what follows the header of the request. A refusal is a *control.Error.
	// Descriptors in the reply stay the client's, except Events and Wake, which the
	// caller closes.
	Call(op control.Op, payload []byte) (control.Message, control.Reply, error)

	// CallUnmapped is Call for a request that registers memory of the process that was
	// named by ShareProcess. The addresses are of that process even where a region
	// covers them, because the process may have mapped something else there since.
	CallUnmapped(op control.Op, payload []byte) (control.Message, control.Reply, error)

	// AddRegion makes a region, at the client's address addr, of memory that both sides
	// have mapped and sealed already. addr is a multiple of the page size. The memory
	// stays the caller's.
	AddRegion(addr uint64, mem *shm.Region) (id uint32, err error)

	// AddRegisters adds UAR pages, and returns the number of the first. They are counted
	// for the client's user and go with the client. A queue may name one once the memory
	// is sealed.
	AddRegisters(pages int) (first int, mem *shm.Region, err error)

	// ForgetPages closes the descriptors of the client's UAR pages and status page, when
	// the program has mapped what it needs of them. A second call does nothing.
	ForgetPages()

	// ShareProcess makes memory that is registered from now on, and lies in no region,
	// that of a process. The caller knows from the kernel that the process is the
	// client's (SO_PEERCRED). It must be of the device's user, and the device must be
	// allowed to trace it. Queues and doorbell records still need a region.
	ShareProcess(pid int, g Guard) error

	// Settle executes the work that the doorbells of the client's queue pairs, and of
	// those connected to them, have announced: all that can be executed, short of what
	// takes thousands of visits. Other clients have their turns meanwhile.
	Settle()

	// Retract takes the unread events of a CQ out of its completion channel and returns
	// how many of them were sent and have been read. reader is the end of the channel
	// that the program reads, which it may do meanwhile. No more events are sent: the
	// program is about to forget the CQ.
	Retract(cqn uint32, reader *os.File) (read uint32)

	// Forsaken returns the completion channels that no CQ uses and no process can read
	// any more.
	Forsaken() (ids []uint32)

	// Close destroys everything that the client has made. Its peers see transport
	// errors, and no other client notices. A second call does nothing.
	Close() error
}

// Hosted says how a client of a server differs from the device's own. The zero value
// says that it does not.
type Hosted struct {
	UARPages      int      // 0: as many as others
	GID           [16]byte // of its datagrams; zero: the engine's
	PlainChannels bool     // a completion channel yields handles, and nothing else
	SameKeys      bool     // memory that is registered anew keeps its key
}

// A Guard is 8 bytes in the memory of a process, at an address and of a value that no
// other process has by accident. While they are there, the process executes the program
// that chose them. Cookie is in the host's byte order.
type Guard struct{ Addr, Cookie uint64 }
