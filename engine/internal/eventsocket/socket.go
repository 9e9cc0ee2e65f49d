//go:build linux && (amd64 || arm64)

package eventsocket

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// HandleOf returns the handle of the CQ that a record of a completion channel is about.
func HandleOf(record [8]byte) uint64 { return binary.LittleEndian.Uint64(record[:]) }

// Pair makes a socket pair that carries data one way, from the device to a client. buffer is the size that is
// set for the send buffer.
func Pair(buffer int) (mine int, yours *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("socketpair: %w", err)
	}
	// The device reads nothing from its end, and shuts it down for reading. If the client could
	// send a descriptor to it, that descriptor would be closed together with the socket, and
	// closing a client's descriptor can block indefinitely.
	_ = unix.Shutdown(fds[0], unix.SHUT_RD)
	_ = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, buffer)
	_ = unix.SetNonblock(fds[1], true) // so that the client's runtime can poll it
	return fds[0], os.NewFile(uintptr(fds[1]), "nicless:events"), nil
}

// Send sends a message or, if it is nil, the record of a completion channel that holds a value. It does not
// wait.
func Send(fd int, message []byte, value uint64) error {
	var record [8]byte
	if message == nil {
		binary.LittleEndian.PutUint64(record[:], value)
		message = record[:]
	}
	return unix.Send(fd, message, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// HungUp reports whether a client has closed its end of the socket, and so takes no events.
func HungUp(err error) bool { return err == unix.EPIPE || err == unix.ECONNRESET }

// IsFull reports whether there may be room for an event later.
func IsFull(err error) bool { return err == unix.EAGAIN || err == unix.ENOBUFS || err == unix.ENOMEM }
