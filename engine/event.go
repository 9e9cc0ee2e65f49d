//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// openEvents gives the client a descriptor from which it receives explanations, and events
// about its objects. The descriptor replaces that of an earlier call.
func (c *caller) openEvents(_ *control.Empty, _ requestMemory, r *control.Reply) (control.Message, error) {
	if err := c.e.ledger.Take(c.uid, socketCharge); err != nil {
		return nil, err
	}
	out, yours, err := c.newNotifier()
	if err != nil {
		c.e.ledger.Refund(c.uid, socketCharge)
		return nil, control.Errorf(control.CodeMemory, "events: %v", err)
	}
	c.closeEvents()
	c.events, r.Events = out, yours
	return &control.Empty{}, nil
}

func (c *caller) closeEvents() {
	if c.events != nil {
		c.closeSocket(c.events)
		c.events = nil
	}
}

// eventSocket makes a socket pair that carries data one way, from the device to a client.
func eventSocket() (mine int, yours *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("socketpair: %w", err)
	}
	// The device reads nothing from its end, and shuts it down for reading. If the client could
	// send a descriptor to it, that descriptor would be closed together with the socket, and
	// closing a client's descriptor can block indefinitely.
	_ = unix.Shutdown(fds[0], unix.SHUT_RD)
	_ = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, eventBuffer)
	_ = unix.SetNonblock(fds[1], true) // so that the client's runtime can poll it
	return fds[0], os.NewFile(uintptr(fds[1]), "nicless:events"), nil
}

// closeSocket closes an event socket of this client, off the engine's thread.
func (c *client) closeSocket(n *notifier) {
	c.after = append(c.after, func() {
		n.close()
		c.e.ledger.Refund(c.uid, socketCharge)
	})
}

// event sends a client an event about one of its objects. A client that does not read its
// events loses events, but suffers no other harm.
func (c *client) event(kind control.EventKind, number uint32) {
	c.send(&control.Event{Kind: kind, Number: number})
}

// send sends an event, and reports whether there was room for it.
func (c *client) send(ev *control.Event) bool {
	if c.events == nil {
		return false
	}
	b := control.Append(nil, control.OpOpenEvents, control.FlagAnswer, 0, ev)
	if c.events.send(notice{message: b}) != nil {
		return false
	}
	c.count[control.CounterEvents]++
	return true
}

// observeLimit sends the limit event of a shared receive queue if the event is due.
func (sh *shard) observeLimit(s *srq) {
	if s.limit > 0 && uint32(s.ready()) < s.limit {
		s.limit = 0
		s.client.event(control.EventSRQLimit, s.num)
	}
}
