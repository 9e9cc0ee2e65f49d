package engine

import (
	"os"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// openEvents gives the client a descriptor that yields what happens to its
// objects, and explanations. Each call gives a new one in place of the last.
func (c *Client) openEvents(_ *control.Empty, _ Memory, r *control.Reply) (control.Message, error) {
	if err := c.e.shares.take(c.uid, descriptors, 1); err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		c.e.shares.give(c.uid, descriptors, 1)
		return nil, control.Errorf(control.CodeMemory, "events: socketpair: %v", err)
	}
	c.closeEvents()
	_ = unix.SetNonblock(fds[1], true)
	c.events = fds[0]
	r.Events = os.NewFile(uintptr(fds[1]), "nicless:events")
	return &control.Empty{}, nil
}

func (c *Client) closeEvents() {
	if c.events >= 0 {
		_ = unix.Close(c.events)
		c.events = -1
		c.e.shares.give(c.uid, descriptors, 1)
	}
}

// event tells a client what happened to one of its objects. A client that does
// not read loses events, and nothing else.
func (c *Client) event(kind control.EventKind, number uint32) {
	c.send(&control.Event{Kind: kind, Number: number})
}

// send reports whether the event was taken.
func (c *Client) send(ev *control.Event) bool {
	if c.events < 0 {
		return false
	}
	b := control.Append(nil, control.OpOpenEvents, control.FlagAnswer, 0, ev)
	if unix.Send(c.events, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) != nil {
		return false
	}
	c.count[control.CounterEvents]++
	return true
}

// observeLimit raises the limit event of a shared receive queue when it is due.
func (e *Engine) observeLimit(s *srq) {
	if s.limit > 0 && uint32(s.ready()) < s.limit {
		s.limit = 0
		s.client.event(control.EventSRQLimit, s.num)
	}
}
