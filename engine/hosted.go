package engine

import (
	"net"
	"os"
	"time"

	"github.com/nicless/nicless/internal/shm"
)

// A hosted client stands for a program that speaks another protocol than the control
// protocol. A server in the engine's process, such as package verbs, makes one for each of
// its programs, and makes requests on their behalf.

// Hosted says how a hosted client differs from others.
type Hosted struct {
	UARPages      int      // number of UAR pages; 0: as many as others
	GID           [16]byte // source GID of its datagrams; zero: the engine's
	PlainChannels bool     // its completion channels carry handles and no overrun records
	SameKeys      bool     // memory that is reregistered keeps its key
}

func (h *Hosted) fill(e *Engine) {
	if h.UARPages == 0 {
		h.UARPages = uarPages
	}
	if h.GID == [16]byte{} {
		h.GID = e.gid()
	}
}

// AttachAs is Attach for a hosted client: its pages can be mapped by another process, and
// its resources are charged to user uid.
func (e *Engine) AttachAs(name string, uid uint32, h Hosted) (*Client, error) {
	return e.attach(name, uid, h, shm.Create, shm.CreateSealed)
}

// CreateMemory makes memory for a hosted client's program to map. It is charged to user uid
// until ReleaseMemory.
func (e *Engine) CreateMemory(uid uint32, name string, size int) (*shm.Region, error) {
	_ = startHelpers()
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

// ForgetMemory closes the descriptor of memory that CreateMemory has made, once the program
// has mapped it. The user is not charged for the descriptor any more. A second call does
// nothing.
func (e *Engine) ForgetMemory(uid uint32, r *shm.Region) {
	if r.File() != nil {
		_ = r.Forget()
		e.shares.give(uid, bill{descriptors: 1})
	}
}

// ForgetPages closes the descriptors of the client's own pages likewise: its program has
// mapped the UAR pages and does not use the status page.
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

// ReleaseMemory undoes CreateMemory. The memory must not be a region of any client.
func (e *Engine) ReleaseMemory(uid uint32, r *shm.Region) {
	held := regionCharge(uid, r.Size())
	if r.File() != nil {
		held = held.plus(regionFile)
	}
	e.unmap(uid, r, held)
}

// unmap unmaps memory that a client could map, and refunds what was charged for it. Memory
// that is not sealed is sealed first, by another process. If its user has forbidden or
// prevents that, the memory stays mapped and charged to the user.
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

// Received charges a user for n descriptors that it has sent, until Discard. It returns an
// error if the user has too many.
func (e *Engine) Received(uid uint32, n int) error { return e.shares.owe(uid, n) }

// Discard closes descriptors that Received has counted, in the background: closing a
// client's descriptor can block indefinitely.
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

// DiscardConnection ends a connection and closes it in the background: it may contain
// unread descriptors. Its cost is refunded when it has been closed.
func (e *Engine) DiscardConnection(uid uint32, conn *net.UnixConn, c Cost) {
	hangUp(conn)
	e.discardConnection(uid, conn, c.bill())
}

// Aside calls f in the background, for a user whose programs could keep f from returning. It
// reports whether f has returned within asideTime; otherwise f may still be running.
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

// asideTime is how long Aside waits for f.
const asideTime = 100 * time.Millisecond

// Passing reports whether an operation that failed with err may succeed later, because the
// system was short of a resource.
func Passing(err error) bool { return passing(err) }
