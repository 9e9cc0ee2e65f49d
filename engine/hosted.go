package engine

import (
	"net"
	"os"
	"time"

	"github.com/nicless/nicless/internal/shm"
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

// Passing reports whether what failed may go better at another try: the system
// is short of something.
func Passing(err error) bool { return passing(err) }
