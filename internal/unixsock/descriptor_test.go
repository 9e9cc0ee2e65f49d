package unixsock

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// polled returns the descriptors that epoll descriptors of this process watch.
func polled(t *testing.T) map[int]bool {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	set := make(map[int]bool)
	for _, name := range all {
		if is, err := os.Readlink(name); err != nil || is != "anon_inode:[eventpoll]" {
			continue
		}
		b, err := os.ReadFile("/proc/self/fdinfo/" + filepath.Base(name))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^tfd:\s*(\d+)`).FindAllSubmatch(b, -1) {
			fd, err := strconv.Atoi(string(m[1]))
			require.NoError(t, err)
			set[fd] = true
		}
	}
	return set
}

// The runtime's poller queries no descriptor that a peer has sent whether it is ready: if it is of a
// file system of the peer's, the whole process would wait for the answer.
func TestReceivedDescriptorsAreNotPolled(t *testing.T) {
	mine, theirs := ends(t)
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	w := os.NewFile(uintptr(pipe[1]), "non-blocking")
	defer w.Close()
	require.True(t, polled(t)[pipe[1]], "what os.NewFile does with it")
	require.NoError(t, Send(theirs, []byte("datagram"), w))
	in, oob := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
	_, oobn, _, err := Peek(mine, in, oob)
	require.NoError(t, err)
	require.NoError(t, Take(mine))
	files, err := Received(oob[:oobn])
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, Control(files[0], func(fd int) error {
		require.False(t, polled(t)[fd])
		return nil
	}))
	require.NoError(t, files[0].Close())
	_ = unix.Close(pipe[0])
}

// A descriptor stays open while it is used, and is closed afterwards.
func TestDescriptorIsClosedAfterItsLastUse(t *testing.T) {
	w, closed := watched(t)
	fd, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	d := NewDescriptor(fd)
	require.NoError(t, Control(d, func(int) error {
		require.NoError(t, d.Close())
		require.False(t, closed())
		return nil
	}))
	require.True(t, closed())
	require.ErrorIs(t, d.Close(), os.ErrClosed)
	require.ErrorIs(t, Control(d, func(int) error { return nil }), os.ErrClosed)
}
