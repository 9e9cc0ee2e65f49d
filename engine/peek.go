package engine

import (
	"net"

	"golang.org/x/sys/unix"
)

// Peek waits for a datagram and copies it, and its descriptors as far as they have room
// in oob; the datagram stays where it is until Take. So no recvmsg closes a descriptor
// for the last time, which can block in the kernel: those without room (MSG_CTRUNC)
// stay in the datagram, and the caller then discards the connection. At the end of the
// connection n and oobn are 0.
func Peek(conn *net.UnixConn, in, oob []byte) (n, oobn, flags int, err error) {
	return receive(conn, in, oob, unix.MSG_PEEK|unix.MSG_CMSG_CLOEXEC)
}

// Take removes the datagram that Peek has copied, whose descriptors must be open still.
func Take(conn *net.UnixConn) error {
	_, _, _, err := receive(conn, make([]byte, 1), nil, unix.MSG_DONTWAIT)
	return err
}

func receive(conn *net.UnixConn, in, oob []byte, how int) (n, oobn, flags int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, 0, err
	}
	var inner error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, inner = unix.Recvmsg(int(fd), in, oob, how)
			if inner != unix.EINTR {
				return inner != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = inner
	}
	if err != nil {
		return 0, 0, 0, err
	}
	return n, oobn, flags, nil
}
