//go:build linux && (amd64 || arm64)

package unixsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const network = "unixpacket"

// Listen makes a socket at path. No file may exist at path before. The permission bits of mode
// decide which users may connect.
//
// Peers cannot send descriptors to a connection until PassRights allows it for this
// connection. Before Linux 6.16 the kernel has no such option, so peers can send descriptors
// at once.
func Listen(path string, mode fs.FileMode) (*net.UnixListener, error) {
	return listen(network, path, mode)
}

// ListenStream is Listen for a socket of type SOCK_STREAM.
func ListenStream(path string, mode fs.FileMode) (*net.UnixListener, error) {
	return listen("unix", path, mode)
}

func listen(network, path string, mode fs.FileMode) (*net.UnixListener, error) {
	// At bind, the socket's file gets the mode of the descriptor, which is 0 here. So no
	// process that the argument mode excludes can connect between bind and chmod.
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		err := control(raw, func(fd int) error { return unix.Fchmod(fd, 0) })
		if err == nil {
			err = passRights(raw, false)
		}
		if errors.Is(err, unix.ENOPROTOOPT) {
			err = nil
		}
		return err
	}}
	l, err := private.Listen(context.Background(), network, path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, mode.Perm()); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return l.(*net.UnixListener), nil
}

// Close removes the socket's file and closes the listener in the background. With the
// listener the kernel closes the connections that were not accepted and the descriptors in
// them. Before Linux 6.16 that can block.
func Close(l *net.UnixListener) {
	l.SetUnlinkOnClose(false)
	_ = os.Remove(l.Addr().String())
	go l.Close()
}

// RemoveStale removes the socket that a dead process has left at path, if there is one. It
// returns an error if something else is there, or if a process still listens there. The
// argument server is the error's word for such a process, for example "engine".
//
// The caller holds the lock of path, so that no other server does the same at the same time.
func RemoveStale(path, server string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return nil // if something is wrong with path, Listen returns an error
	}
	if st.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	err = answers(path)
	switch {
	case err == nil:
		return fmt.Errorf("another %s is listening at %s", server, path)
	case !errors.Is(err, unix.ECONNREFUSED):
		// The socket has another type or a full backlog, or belongs to another user.
		return fmt.Errorf("%s is in use: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket of a process that has ended: %w", err)
	}
	return nil
}

// answers returns nil if a process listens at path.
func answers(path string) error {
	c, err := net.DialUnix(network, nil, &net.UnixAddr{Name: path, Net: network})
	if err == nil {
		_ = c.Close()
	}
	return err
}
