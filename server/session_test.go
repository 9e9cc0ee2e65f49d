package server

import (
	"net"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bothEnds returns two ends of a connection.
func bothEnds(t *testing.T) (mine, theirs *net.UnixConn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	var both [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(f)
		require.NoError(t, err)
		_ = f.Close()
		both[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	return both[0], both[1]
}

// No descriptor that comes with a request is closed while the request is read: the
// goroutine that serves the connection would wait for that.
func TestReadingClosesNoDescriptor(t *testing.T) {
	mine, theirs := bothEnds(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	fds := append(slices.Repeat([]int{0}, 39), int(w.Fd()))
	_, _, err = theirs.WriteMsgUnix([]byte("x"), unix.UnixRights(fds...), nil)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	hungUp := func() bool {
		p := []unix.PollFd{{Fd: int32(r.Fd())}}
		_, err := unix.Poll(p, 0)
		require.NoError(t, err)
		return p[0].Revents&unix.POLLHUP != 0
	}
	s := session{conn: mine}
	require.ErrorIs(t, s.next(), errProtocol)
	require.False(t, hungUp(), "the reader of the request closed it")
	require.NoError(t, mine.Close())
	require.True(t, hungUp())
}
