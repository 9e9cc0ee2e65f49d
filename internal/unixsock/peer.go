//go:build linux && (amd64 || arm64)

package unixsock

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Control calls do with the descriptor of c, and returns the error of do or of c. The
// descriptor stays open during the call. Unlike os.File.Fd, Control does not make the
// descriptor blocking.
func Control(c syscall.Conn, do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return control(raw, do)
}

func control(raw syscall.RawConn, do func(fd int) error) error {
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = do(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// Credentials returns the process, user and group at the other end, as the kernel noted
// them when the connection was made (SO_PEERCRED).
func Credentials(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	err = Control(conn, func(fd int) error {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	return cred, err
}

// HangUp ends a connection for both sides at once. The descriptor stays open: closing it
// can block.
func HangUp(conn syscall.Conn) {
	_ = Control(conn, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RDWR) })
}

// HungUp reports whether the connection has ended for both sides. It has also ended when no
// process has the other end open any more. HungUp does not wait.
func HungUp(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&unix.POLLHUP != 0
}

// Finished reports whether the peer will send nothing more: it has shut its side down, or the connection has
// ended for both. Earlier datagrams may still wait. Finished does not wait.
func Finished(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) != 0
}

// Unread reports whether the peer has still to read something that was sent to it.
func Unread(conn syscall.Conn) (unread bool) {
	_ = Control(conn, func(fd int) error {
		n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		unread = err == nil && n > 0
		return nil
	})
	return unread
}

// Pair makes two connected sockets. The first is non-blocking, so that Go's runtime can wait
// for it. The second is blocking, as the program that gets it expects.
func Pair(name string) (mine, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	_ = unix.SetNonblock(fds[0], true)
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}
