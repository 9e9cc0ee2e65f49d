package unixsock

import (
	"context"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func contextThatEnds(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// ends returns both ends of a connection.
func ends(t *testing.T) (mine, theirs *net.UnixConn) {
	t.Helper()
	a, b, err := Pair("end")
	require.NoError(t, err)
	var both [2]*net.UnixConn
	for i, f := range []*os.File{a, b} {
		conn, err := net.FileConn(f)
		require.NoError(t, err)
		_ = f.Close()
		both[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	return both[0], both[1]
}

// watched returns the writing end of a pipe, and a function that reports whether all copies of
// it are closed.
func watched(t *testing.T) (w *os.File, closed func() bool) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return w, func() (up bool) {
		require.NoError(t, Control(r, func(fd int) error { up = HungUp(fd); return nil }))
		return up
	}
}

func TestSendAndReceiveFiles(t *testing.T) {
	mine, theirs := ends(t)
	w, closed := watched(t)
	require.NoError(t, Send(theirs, []byte("datagram"), w, os.Stdin))
	require.NoError(t, w.Close())
	in, oob := make([]byte, 16), make([]byte, unix.CmsgSpace(4*4))
	for range 2 { // Peek leaves the datagram in the connection
		n, oobn, flags, err := Peek(mine, in, oob)
		require.NoError(t, err)
		require.Equal(t, "datagram", string(in[:n]))
		require.Zero(t, flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC))
		files, err := Received(oob[:oobn])
		require.NoError(t, err)
		require.Len(t, files, 2)
		for _, f := range files {
			require.NoError(t, Control(f, func(fd int) error {
				flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				require.Equal(t, unix.FD_CLOEXEC, flags&unix.FD_CLOEXEC)
				return err
			}))
			require.NoError(t, f.Close())
		}
	}
	require.False(t, closed(), "a copy is in the connection")
	require.NoError(t, Take(mine))
	require.True(t, closed())

	require.NoError(t, theirs.Close())
	n, oobn, _, err := Peek(mine, in, oob)
	require.NoError(t, err)
	require.Zero(t, n+oobn, "the end")
}

// Descriptors for which there is no room stay in the datagram. If Peek closed one, the goroutine
// that reads would wait for that.
func TestPeekClosesNoDescriptor(t *testing.T) {
	mine, theirs := ends(t)
	w, closed := watched(t)
	files := append(slices.Repeat([]*os.File{os.Stdin}, 39), w)
	require.NoError(t, Send(theirs, []byte("x"), files...))
	require.NoError(t, w.Close())
	_, _, flags, err := Peek(mine, make([]byte, 1), nil)
	require.NoError(t, err)
	require.NotZero(t, flags&unix.MSG_CTRUNC)
	require.False(t, closed())
	require.NoError(t, mine.Close())
	require.True(t, closed())
}

func TestDescriptorsOfGarbage(t *testing.T) {
	_, err := Descriptors(slices.Repeat([]byte{0xff}, 32))
	require.ErrorContains(t, err, "control messages")
	fds, err := Descriptors(nil)
	require.NoError(t, err)
	require.Empty(t, fds)
}

func TestSendOfAClosedFile(t *testing.T) {
	_, theirs := ends(t)
	w, _ := watched(t)
	require.NoError(t, w.Close())
	require.Error(t, Send(theirs, []byte("x"), w))
	require.False(t, Unread(theirs), "nothing was sent")
}

func TestUnread(t *testing.T) {
	mine, theirs := ends(t)
	require.False(t, Unread(mine))
	_, err := mine.Write([]byte("x"))
	require.NoError(t, err)
	require.True(t, Unread(mine))
	require.False(t, Unread(theirs), "which has received, not sent")
	_, err = theirs.Read(make([]byte, 1))
	require.NoError(t, err)
	require.False(t, Unread(mine))
}

func TestHangUp(t *testing.T) {
	mine, theirs := ends(t)
	ended := func(c *net.UnixConn) (up bool) {
		require.NoError(t, Control(c, func(fd int) error { up = HungUp(fd); return nil }))
		return up
	}
	require.False(t, ended(mine))
	HangUp(mine)
	require.True(t, ended(mine))
	require.True(t, ended(theirs))
	n, _ := theirs.Read(make([]byte, 1))
	require.Zero(t, n)
}

func TestCredentials(t *testing.T) {
	l, path := listening(t)
	dial(t, path)
	s, err := l.AcceptUnix()
	require.NoError(t, err)
	cred, err := Credentials(s)
	require.NoError(t, err)
	require.Equal(t, unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}, *cred)
	require.NoError(t, s.Close())
	_, err = Credentials(s)
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestPair(t *testing.T) {
	mine, theirs, err := Pair("pair")
	require.NoError(t, err)
	defer theirs.Close()
	blocks := func(f *os.File) (blocks bool) {
		require.NoError(t, Control(f, func(fd int) error {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			blocks = flags&unix.O_NONBLOCK == 0
			return err
		}))
		return blocks
	}
	require.False(t, blocks(mine))
	require.True(t, blocks(theirs))
	require.NoError(t, mine.Close())
	eventually(t, "the other end hangs up", func() (up bool) {
		_ = Control(theirs, func(fd int) error { up = HungUp(fd); return nil })
		return up
	})
}
