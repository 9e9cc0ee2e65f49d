package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Listener accepts clients on a unix socket.
type Listener struct {
	e    *Engine
	sock *net.UnixListener
	lock *os.File  // held as long as the socket is ours; nil: its file is somebody else's
	said time.Time // when the log heard last that nobody is accepted
}

// Listen makes a socket at path, which other processes connect to; mode is its
// permission bits, which decide who may. A socket left behind by an engine that
// is gone is replaced; one that still answers is an error. PATH.lock beside it
// keeps two engines that start together apart.
func (e *Engine) Listen(path string, mode fs.FileMode) (_ *Listener, err error) {
	growDescriptors()
	if err := startHelpers(); err != nil {
		e.journal.say(slog.LevelInfo, "clients may be able to delay the end of this process", "error", err)
	}
	lock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlockSocket(lock)
		}
	}()
	addr := &net.UnixAddr{Name: path, Net: "unixpacket"}
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("engine: %s exists and is not a socket", path)
		}
		c, err := net.DialUnix("unixpacket", nil, addr)
		switch {
		case err == nil:
			_ = c.Close()
			return nil, fmt.Errorf("engine: another engine is listening at %s", path)
		case !errors.Is(err, unix.ECONNREFUSED): // of another kind, full, or not ours to ask
			return nil, fmt.Errorf("engine: %s is in use: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("engine: socket left behind: %w", err)
		}
	}
	// A socket's file gets the mode that its descriptor has, so nobody can
	// connect between bind and chmod who may not afterwards.
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var inner error
		err := raw.Control(func(fd uintptr) { inner = unix.Fchmod(int(fd), 0) })
		if e.refuseRights && err == nil && inner == nil {
			// Before 6.16 the kernel knows no such option; see discard.go.
			if inner = e.passRights(bare{raw}, false); errors.Is(inner, unix.ENOPROTOOPT) {
				inner = nil
			}
		}
		return errors.Join(err, inner)
	}}
	sock, err := private.Listen(context.Background(), addr.Net, path)
	if err != nil {
		return nil, fmt.Errorf("engine: socket: %w", err)
	}
	if err := os.Chmod(path, mode.Perm()); err != nil {
		_ = sock.Close()
		return nil, fmt.Errorf("engine: socket: %w", err)
	}
	return &Listener{e: e, sock: sock.(*net.UnixListener), lock: lock}, nil
}

// growDescriptors has the kernel make its table of this process's descriptors as large
// as clients may need it. Growing it later takes milliseconds (synchronize_rcu) of the
// thread that opens the next descriptor, which can be the device's.
func growDescriptors() {
	const most = 1 << 16 // 0.5 MiB of the kernel's memory
	if fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, min(rlimit(unix.RLIMIT_NOFILE, most), most)-1); err == nil {
		_ = unix.Close(fd)
	}
}

// close ends the socket. Connections that nobody has accepted end with it, and
// what lies in them unread may hold its descriptor up: nobody waits for that.
func (l *Listener) close() {
	l.sock.SetUnlinkOnClose(false)
	if l.lock != nil {
		_ = os.Remove(l.sock.Addr().String())
		unlockSocket(l.lock)
	}
	go l.sock.Close()
}
