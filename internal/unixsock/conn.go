//go:build linux && (amd64 || arm64)

package unixsock

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A Conn is a server's end of a connection over which a program makes requests, each after it
// has read the answer to the one before. One goroutine at a time uses a Conn; Control and
// HangUp may be called by any goroutine.
//
// Go's runtime does not watch the connection. The runtime's poller would wake a thread twice
// for each request: when the request arrives, and when the program has read the answer. For
// a while after a request, the thread of the goroutine waits in recvmsg, so that the kernel
// wakes it when the next request arrives and no other thread takes part. A connection that
// stays silent for longer is watched by a Waiter and occupies no thread.
type Conn struct {
	*os.File
	w       *Waiter
	uid     uint32
	id      int32
	in      bool          // whether the connection is in the epoll descriptor of the Waiter
	hot     bool          // whether the connection has one of the Waiter's threads
	arrived chan struct{} // the Waiter says that a request has arrived
}

// NewConn takes over a connection of user uid. It closes conn if there is no error.
func (w *Waiter) NewConn(conn *net.UnixConn, uid uint32) (*Conn, error) {
	c := &Conn{w: w, uid: uid, arrived: make(chan struct{}, 1)}
	err := Control(conn, func(fd int) error {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		pause := unix.NsecToTimeval(int64(hotTime))
		err = errors.Join(unix.SetNonblock(n, false),
			unix.SetsockoptTimeval(n, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &pause))
		c.File = os.NewFile(uintptr(n), "connection") // blocking, so the runtime does not watch it
		return err
	})
	if err != nil {
		if c.File != nil {
			_ = c.File.Close() // not the last copy
			_ = Control(conn, func(fd int) error { return unix.SetNonblock(fd, true) })
		}
		return nil, err
	}
	_ = conn.Close() // not the last copy
	w.add(c)
	return c, nil
}

// Close closes the connection. This can block.
func (c *Conn) Close() error {
	c.cool()
	c.w.remove(c)
	return c.File.Close()
}

// Peek does the same as the function Peek.
func (c *Conn) Peek(in, oob []byte) (n, oobn, flags int, err error) {
	for {
		wait := unix.MSG_DONTWAIT
		if c.occupy() {
			wait = 0
		}
		n, oobn, flags, err = c.receive(in, oob, unix.MSG_PEEK|unix.MSG_CMSG_CLOEXEC|wait)
		if !errors.Is(err, unix.EAGAIN) {
			return n, oobn, flags, err
		}
		c.cool()
		if err := c.w.wait(c); err != nil {
			return 0, 0, 0, err
		}
	}
}

// Take does the same as the function Take.
func (c *Conn) Take() error {
	var b [1]byte
	_, _, _, err := c.receive(b[:], nil, unix.MSG_DONTWAIT)
	return err
}

func (c *Conn) receive(in, oob []byte, how int) (n, oobn, flags int, err error) {
	err = Control(c, func(fd int) error {
		for {
			n, oobn, flags, _, err = unix.Recvmsg(fd, in, oob, how)
			if err != unix.EINTR {
				return err
			}
		}
	})
	return n, oobn, flags, err
}

// Send sends one datagram with copies of files. It does not wait: there is room, unless the
// program has not read earlier answers.
func (c *Conn) Send(datagram []byte, files ...*os.File) error {
	rights, err := rightsOf(files)
	if err != nil {
		return err
	}
	return Control(c, func(fd int) error {
		_, err := unix.SendmsgN(fd, datagram, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return err
	})
}

// occupy lets the goroutine's thread wait for the next request if the user may have one more such thread,
// and reports whether it does.
func (c *Conn) occupy() bool {
	if !c.hot {
		c.hot = c.w.occupy(c.uid)
	}
	return c.hot
}

func (c *Conn) cool() {
	if c.hot {
		c.w.vacate(c.uid)
	}
	c.hot = false
}
