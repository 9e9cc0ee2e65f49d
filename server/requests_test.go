package server

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Reading a request closes no descriptor that came with it, because the goroutine that serves
// the connection would have to wait for that.
func TestReadingClosesNoDescriptor(t *testing.T) {
	mine, theirs := pair(t)
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
	require.ErrorIs(t, s.serveRequest(), errProtocol)
	require.False(t, hungUp(), "the reader of the request closed it")
	require.NoError(t, mine.Close())
	require.True(t, hungUp())
}
