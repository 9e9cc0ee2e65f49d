package sealer

import (
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Memory is sealed by another process. When that process has ended, a new one is started.
func TestMemoryIsSealedByAnotherProcess(t *testing.T) {
	var s sealer
	for range 2 {
		r, err := shm.Create("test", shm.PageSize)
		require.NoError(t, err)
		require.False(t, r.Sealed())
		require.True(t, s.seal(r))
		require.NoError(t, r.Close())
		// Ends the sealer; nothing more can be sent.
		require.NoError(t, unix.Shutdown(s.socket, unix.SHUT_RDWR))
	}
	require.NoError(t, unix.Close(s.socket))
}

// When the sealer has ended and its socket is closed, memory is not sent through a descriptor
// that has the socket's number now, because it may be a client's connection.
func TestMemoryIsSentToTheSealerOnly(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	r, err := shm.Create("test", shm.PageSize)
	require.NoError(t, err)
	defer r.Close()
	s := sealer{socket: fds[0]}
	require.ErrorIs(t, s.send(r.File(), r.File()), unix.EPIPE)
	_, _, err = unix.Recvfrom(fds[1], make([]byte, 1), 0)
	require.ErrorIs(t, err, unix.EAGAIN)
}
