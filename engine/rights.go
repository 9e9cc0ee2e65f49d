package engine

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// PassRights says whether descriptors may be sent to a unix socket, by SCM_RIGHTS.
// With off, sending one fails with EPERM on the sender's side, so that none lies
// unread in the connection. Connections inherit it from their listener when they are
// made, also those that nobody has accepted yet. The error is ENOPROTOOPT before
// Linux 6.16.
func PassRights(c syscall.Conn, on bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	value := 0
	if on {
		value = 1
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		inner = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, value)
	})
	return errors.Join(err, inner)
}

// passed reports whether descriptors may lie in a connection: whether they could be
// sent to it since it was made, for nobody turns PassRights off later.
func passed(c syscall.Conn) bool {
	value := 1
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if v, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS); err == nil {
				value = v
			}
		})
	}
	return value != 0
}

// A bare is a socket that is not bound yet.
type bare struct{ syscall.RawConn }

func (b bare) SyscallConn() (syscall.RawConn, error) { return b.RawConn, nil }
