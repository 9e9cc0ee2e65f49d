//go:build linux && (amd64 || arm64)

package object

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// recordOf returns the record that holds a value.
func recordOf(value uint64) (record [8]byte) {
	binary.LittleEndian.PutUint64(record[:], value)
	return record
}

// HandleOf returns the handle of the CQ that a record is about.
func HandleOf(record [8]byte) uint64 { return binary.LittleEndian.Uint64(record[:]) }

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
	_ = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, EventBuffer)
	_ = unix.SetNonblock(fds[1], true) // so that the client's runtime can poll it
	return fds[0], os.NewFile(uintptr(fds[1]), "nicless:events"), nil
}

// CloseSocket closes an event socket of this client, off the engine's thread.
func (c *Client) CloseSocket(n *Notifier) {
	c.After = append(c.After, func() {
		n.Close()
		c.Device.Ledger.Refund(c.UID, SocketCharge)
	})
}

// Event sends a client an event about one of its objects. A client that does not read its
// events loses events, but suffers no other harm.
func (c *Client) Event(kind control.EventKind, number uint32) {
	c.Send(&control.Event{Kind: kind, Number: number})
}

// Send sends an event, and reports whether there was room for it.
func (c *Client) Send(ev *control.Event) bool {
	if c.Events == nil {
		return false
	}
	b := control.Append(nil, control.OpOpenEvents, control.FlagAnswer, 0, ev)
	if c.Events.Send(Notice{message: b}) != nil {
		return false
	}
	c.Count[control.CounterEvents]++
	return true
}
