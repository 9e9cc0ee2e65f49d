package engine

import (
	"fmt"
	"os"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// openEvents gives the client a descriptor that yields what happens to its
// objects, and explanations. Each call gives a new one in place of the last.
func (c *Client) openEvents(_ *control.Empty, _ Memory, r *control.Reply) (control.Message, error) {
	if err := c.e.shares.take(c.uid, socketBill); err != nil {
		return nil, err
	}
	mine, yours, err := eventSocket()
	if err != nil {
		c.e.shares.give(c.uid, socketBill)
		return nil, control.Errorf(control.CodeMemory, "events: %v", err)
	}
	c.closeEvents()
	c.events, r.Events = mine, yours
	return &control.Empty{}, nil
}

func (c *Client) closeEvents() {
	if c.events >= 0 {
		c.closeSocket(c.events)
		c.events = -1
	}
}

// eventSocket makes a socket that goes one way, from the device to a client.
func eventSocket() (mine int, yours *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("socketpair: %w", err)
	}
	// Nobody reads here. A descriptor that was sent would be closed with this
	// end, and closing a client's descriptor can block for as long as the client likes.
	_ = unix.Shutdown(fds[0], unix.SHUT_RD)
	_ = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, eventBuffer)
	_ = unix.SetNonblock(fds[1], true) // so that the client's runtime can poll it
	return fds[0], os.NewFile(uintptr(fds[1]), "nicless:events"), nil
}

// closeSocket gives an event socket of this client back. The device's thread
// has better things to do than to close it.
func (c *Client) closeSocket(fd int) {
	c.after = append(c.after, func() {
		_ = unix.Close(fd)
		c.e.shares.give(c.uid, socketBill)
	})
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
func (sh *shard) observeLimit(s *srq) {
	if s.limit > 0 && uint32(s.ready()) < s.limit {
		s.limit = 0
		s.client.event(control.EventSRQLimit, s.num)
	}
}
