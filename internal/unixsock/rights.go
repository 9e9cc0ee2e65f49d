//go:build linux && (amd64 || arm64)

package unixsock

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// PassRights sets whether descriptors may be sent to a unix socket (SO_PASSRIGHTS). If on is
// false, a peer that sends a descriptor gets EPERM, so that the connection never holds an
// unread descriptor. A connection inherits the option from its listener when the peer
// connects, which is before the connection is accepted. Before Linux 6.16 the error is
// ENOPROTOOPT.
func PassRights(c syscall.Conn, on bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return passRights(raw, on)
}

func passRights(raw syscall.RawConn, on bool) error {
	value := 0
	if on {
		value = 1
	}
	return control(raw, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, value)
	})
}

// PassesRights reports whether descriptors may be sent to a socket. If they were never allowed
// for a connection, it holds no unread descriptors, and closing it does not block.
func PassesRights(c syscall.Conn) bool {
	value := 1 // the value before Linux 6.16, which has no such option
	_ = Control(c, func(fd int) error {
		if v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS); err == nil {
			value = v
		}
		return nil
	})
	return value != 0
}
