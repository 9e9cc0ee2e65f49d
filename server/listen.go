//go:build linux && (amd64 || arm64)

package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// A Listener accepts clients at a unix socket. When Serve returns, the Listener is closed.
type Listener struct {
	device nic.Device
	socket *net.UnixListener
	lock   *unixsock.Lock // lock of the socket's path; nil: the caller has made the socket
	unread *unreadAnswers
}

// Listen makes a socket at path, to which clients of e connect. The permission bits of
// mode decide which users may connect.
//
// If an engine that has ended left its socket at path, Listen replaces it. Listen returns an
// error if an engine still answers there, or if something else is there. A lock on the file
// PATH.lock keeps two engines that start at the same time from using one path. If another
// process holds the lock, the error names that process.
func Listen(e *engine.Engine, path string, mode fs.FileMode) (*Listener, error) {
	l, err := listen(nic.Of(e), path, mode)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return l, nil
}

func listen(d nic.Device, path string, mode fs.FileMode) (_ *Listener, err error) {
	lock, err := unixsock.LockPath(path, "engine")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Unlock()
		}
	}()
	if err := unixsock.RemoveStale(path, "engine"); err != nil {
		return nil, err
	}
	prepare(d)
	socket, err := unixsock.Listen(path, mode)
	if err != nil {
		return nil, err
	}
	return newListener(d, socket, lock), nil
}

// Use returns a Listener for a socket that the caller has made or that a service manager
// has passed to it. The socket is of type SOCK_SEQPACKET ("unixpacket" in package net).
// Serve closes the socket but does not remove its file.
//
// Connections that wait to be accepted may hold descriptors that clients sent before Use.
// After Use, Linux 6.16 and later refuse such descriptors.
func Use(e *engine.Engine, socket *net.UnixListener) (*Listener, error) {
	if socket == nil {
		return nil, errors.New("server: no socket (nil)")
	}
	if n := socket.Addr().Network(); n != "unixpacket" {
		return nil, fmt.Errorf("server: socket %v is of network %s; unixpacket (SOCK_SEQPACKET) is needed", socket.Addr(), n)
	}
	if err := unixsock.PassRights(socket, false); err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
		return nil, fmt.Errorf("server: socket %v: %w", socket.Addr(), err)
	}
	d := nic.Of(e)
	prepare(d)
	return newListener(d, socket, nil), nil
}

func newListener(d nic.Device, socket *net.UnixListener, lock *unixsock.Lock) *Listener {
	return &Listener{device: d, socket: socket, lock: lock, unread: useUnread(d)}
}

// prepare readies the device's process before the first client can connect. It returns no
// error: if a part of it fails, the only consequence is that this process may take longer to
// end. The log says so.
func prepare(d nic.Device) {
	if err := d.Prepare(); err != nil {
		d.Report(nic.UnknownUser, slog.LevelInfo, "clients may be able to delay the end of this process", "error", err)
	}
}

// close closes the socket and, with it, the connections that were not accepted. These may
// hold descriptors that are slow to close, so close does not wait until they are closed.
func (l *Listener) close() {
	defer l.unread.release()
	if l.lock == nil {
		l.socket.SetUnlinkOnClose(false)
		go l.socket.Close()
		return
	}
	unixsock.Close(l.socket)
	l.lock.Unlock()
}
