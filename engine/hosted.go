package engine

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// What a server in the engine's process needs that speaks another protocol than the
// control protocol to its programs, and is a client of the engine for each of them.

// Hosted says how such a client differs from others.
type Hosted struct {
	UARPages      int      // 0: as many as others
	GID           [16]byte // of its datagrams; zero: the engine's
	PlainChannels bool     // a completion channel yields handles, and nothing else
	SameKeys      bool     // memory that is registered anew keeps its key
}

func (h *Hosted) fill(e *Engine) {
	if h.UARPages == 0 {
		h.UARPages = uarPages
	}
	if h.GID == [16]byte{} {
		h.GID = e.gid()
	}
}

// AttachAs is Attach for a client that serves another process: its pages are mapped,
// and what it takes is on uid's bill.
func (e *Engine) AttachAs(name string, uid uint32, h Hosted) (*Client, error) {
	return e.attach(name, uid, h, shm.Create, shm.CreateSealed)
}

// CreateMemory makes memory that a hosted client's program is to map. It is on uid's
// bill until ReleaseMemory.
func (e *Engine) CreateMemory(uid uint32, name string, size int) (*shm.Region, error) {
	_ = theSealer.start() // else it is tried again, and what is not sealed stays
	b := regionCharge(uid, size).plus(regionFile)
	if err := e.shares.take(uid, b); err != nil {
		return nil, err
	}
	r, err := e.makeMemory(name, size)
	if err != nil {
		e.shares.give(uid, b)
		return nil, err
	}
	return r, nil
}

// ForgetMemory closes the descriptor of memory that CreateMemory has made, once its
// program has mapped it: then it is not on the user's bill any more. Doing so
// again does nothing.
func (e *Engine) ForgetMemory(uid uint32, r *shm.Region) {
	if r.File() != nil {
		_ = r.Forget()
		e.shares.give(uid, bill{descriptors: 1})
	}
}

// ForgetPages does the same for the client's own pages: its UAR pages are mapped, and
// nobody asks for its status page.
func (c *Client) ForgetPages() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range []*shm.Region{c.uar, c.status} {
		if !c.closed && r.File() != nil {
			_ = r.Forget()
			c.paid[descriptors]--
			c.e.shares.give(c.uid, bill{descriptors: 1})
		}
	}
}

// ReleaseMemory undoes CreateMemory. No client may have it as a region.
func (e *Engine) ReleaseMemory(uid uint32, r *shm.Region) {
	held := regionCharge(uid, r.Size())
	if r.File() != nil {
		held = held.plus(regionFile)
	}
	e.unmap(uid, r, held)
}

// unmap unmaps memory that a client could map, and gives back what was held for it.
// Memory that nobody has sealed is sealed first, by another process. If its user has
// forbidden that, or does not let it happen, the memory stays mapped, and on the user's
// bill.
func (e *Engine) unmap(uid uint32, r *shm.Region, held bill) {
	shut := func() {
		_ = r.Close()
		e.shares.give(uid, held)
	}
	if r.Sealed() {
		shut()
		return
	}
	e.discard(uid, 0, func() {
		if theSealer.seal(r) {
			shut()
		}
	})
}

// Received counts descriptors that a user has sent, until Discard. It is an error if
// there are too many.
func (e *Engine) Received(uid uint32, n int) error { return e.shares.owe(uid, n) }

// Discard closes what Received has counted, when nobody has to wait for it.
func (e *Engine) Discard(uid uint32, files []*os.File) {
	if len(files) == 0 {
		return
	}
	e.discard(uid, len(files), func() {
		for _, f := range files {
			_ = f.Close()
		}
	})
}

// DiscardConnection ends a connection, and has it closed when nobody has to wait for
// that: descriptors may lie in it unread. Its cost is refunded then, and not before.
func (e *Engine) DiscardConnection(uid uint32, conn *net.UnixConn, c Cost) {
	hangUp(conn)
	e.discardConnection(uid, conn, c.bill())
}

// Aside calls f where nobody has to wait for it, for a user whose programs could keep it
// from returning. It reports whether f has returned soon; else it may be under way still.
func (e *Engine) Aside(uid uint32, f func()) bool {
	done := make(chan struct{})
	e.discard(uid, 0, func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return true
	case <-time.After(asideTime):
		return false
	}
}

// asideTime is how long the device waits for a program that keeps its own events from
// being taken back.
const asideTime = 100 * time.Millisecond

// Retract takes the unread events of a CQ out of its channel, and returns how many were
// sent and have been read. reader is the end of the channel that the program reads. The
// program may read meanwhile. No more are sent: the program forgets the CQ, and would
// not know what they mean.
//
// A program that reads into a page which never comes holds the lock that every reader
// needs. So neither the device's thread nor the caller reads; what cannot be read soon
// counts as read by the program.
func (c *Client) Retract(cqn uint32, reader *os.File) (read uint32) {
	c.mu.Lock()
	var sent uint32
	var handle uint64
	var ends [2]int // the device's, the program's: descriptors of this call's own
	var err error
	c.e.Do(func() {
		q := c.cqs[cqn]
		if c.closed || q == nil || q.channel == nil {
			err = ErrClosed
			return
		}
		c.lane.disarm(q)
		q.armed = false
		sent, handle = q.sent, q.handle
		ends[0], err = unix.FcntlInt(uintptr(q.channel.fd), unix.F_DUPFD_CLOEXEC, 0)
	})
	c.mu.Unlock()
	if err != nil {
		return 0
	}
	conn, err := reader.SyscallConn() // Fd would change how the program's reads wait
	if err == nil {
		inner := conn.Control(func(fd uintptr) { ends[1], err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
		err = errors.Join(err, inner)
	}
	if err != nil {
		_ = unix.Close(ends[0])
		return sent
	}
	taken := make(chan uint32, 1)
	if c.e.Aside(c.uid, func() {
		taken <- unsend(ends[0], ends[1], handle, sent)
		_ = unix.Close(ends[0])
		_ = unix.Close(ends[1])
	}) {
		return sent - <-taken
	}
	return sent
}

// unsend takes the events of a queue, of which at most sent exist, out of its channel,
// and returns how many there were. Events of other queues are put back; there is room
// for them.
func unsend(writer, reader int, handle uint64, sent uint32) (taken uint32) {
	var keep [][8]byte
	for range eventBuffer { // more than there can be
		var b [8]byte
		if n, _, err := unix.Recvfrom(reader, b[:], unix.MSG_DONTWAIT); err != nil || n != len(b) {
			break
		}
		if handleOf(b) == handle {
			taken++
		} else {
			keep = append(keep, b)
		}
	}
	for _, b := range keep {
		_ = unix.Send(writer, b[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
	return min(taken, sent)
}

// Forsaken returns the completion channels that no CQ uses and nobody can read
// any more.
func (c *Client) Forsaken() (ids []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.e.Do(func() {
		for _, ch := range c.channels {
			if ch.users > 0 {
				continue
			}
			p := []unix.PollFd{{Fd: int32(ch.fd)}}
			if n, err := unix.Poll(p, 0); err == nil && n == 1 && p[0].Revents&unix.POLLHUP != 0 {
				ids = append(ids, ch.id)
			}
		}
	})
	return ids
}

// A Cost is what a server keeps for a program.
type Cost struct {
	Memory      int // bytes
	Descriptors int
	Connections int // each of which may hold a thread
}

// Plus returns the sum of both.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.Memory + d.Memory, c.Descriptors + d.Descriptors, c.Connections + d.Connections}
}

// Minus returns what is left of c without d.
func (c Cost) Minus(d Cost) Cost {
	return Cost{c.Memory - d.Memory, c.Descriptors - d.Descriptors, c.Connections - d.Connections}
}

func (c Cost) bill() bill {
	return bill{memory: c.Memory, descriptors: c.Descriptors, connections: c.Connections}
}

// Charge puts a cost on uid's bill, or says that the user cannot have so much.
func (e *Engine) Charge(uid uint32, c Cost) error { return e.shares.take(uid, c.bill()) }

// Refund takes back what Charge has counted.
func (e *Engine) Refund(uid uint32, c Cost) { e.shares.give(uid, c.bill()) }

// Passing reports whether what failed may go better at another try: the system
// is short of something.
func Passing(err error) bool { return passing(err) }
