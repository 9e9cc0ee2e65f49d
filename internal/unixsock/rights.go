//go:build linux && (amd64 || arm64)

package unixsock

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// PassRights says whether descriptors may be sent to a unix socket (SO_PASSRIGHTS). If
// not, sending one fails with EPERM on the sender's side, so that none lies unread in
// the connection. A connection inherits the option from its listener when the peer
// connects, before it is accepted. The error is ENOPROTOOPT before Linux 6.16.
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

// PassesRights reports whether descriptors may be sent to a socket. A connection for
// which PassRights was never turned on has none unread in it, and closing it does not
// block.
func PassesRights(c syscall.Conn) bool {
	value := 1 // before Linux 6.16
	_ = Control(c, func(fd int) error {
		if v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS); err == nil {
			value = v
		}
		return nil
	})
	return value != 0
}
