//go:build linux && (amd64 || arm64)

package unixsock

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Peek waits for a datagram and copies it to in. It copies as many of the datagram's
// descriptors as oob has room for. The datagram stays in the connection until Take. At the end
// of the connection n and oobn are 0.
//
// Without MSG_PEEK, recvmsg would close the descriptors for which there is no room, and
// closing can block. With it they stay in the datagram. flags then has MSG_CTRUNC, and the
// caller should end the connection.
func Peek(conn *net.UnixConn, in, oob []byte) (n, oobn, flags int, err error) {
	return receive(conn, in, oob, unix.MSG_PEEK|unix.MSG_CMSG_CLOEXEC)
}

// Take removes the datagram that Peek has copied. The descriptors that Peek returned must
// still be open, so that Take does not close the last copy of a descriptor.
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

// Send sends one datagram with copies of files. It waits while the peer's buffer is
// full, until the write deadline of conn.
func Send(conn *net.UnixConn, datagram []byte, files ...*os.File) error {
	rights, err := rightsOf(files)
	if err != nil {
		return err
	}
	_, _, err = conn.WriteMsgUnix(datagram, rights, nil)
	return err
}

// rightsOf returns a control message with the descriptors of files, nil if there are none.
func rightsOf(files []*os.File) ([]byte, error) {
	if len(files) == 0 {
		return nil, nil
	}
	fds := make([]int, len(files))
	for i, f := range files {
		if err := Control(f, func(fd int) error { fds[i] = fd; return nil }); err != nil {
			return nil, err
		}
	}
	return unix.UnixRights(fds...), nil
}

// Descriptors returns the descriptors in the control messages of a datagram. They have the
// close-on-exec flag; all other flags are those that the peer has set. The caller owns the
// descriptors even if there is an error.
func Descriptors(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control messages: %w", err)
	}
	for i := range messages {
		rights, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // a message of another kind
		}
		for _, fd := range rights {
			unix.CloseOnExec(fd)
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// Received returns the same descriptors as Descriptors, each as a Descriptor.
func Received(oob []byte) (list []*Descriptor, err error) {
	fds, err := Descriptors(oob)
	for _, fd := range fds {
		list = append(list, NewDescriptor(fd))
	}
	return list, err
}
