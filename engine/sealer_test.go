package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Memory is sealed by another process, and by a new one when that is gone.
func TestMemoryIsSealedByAnotherProcess(t *testing.T) {
	var s sealer
	for range 2 {
		r, err := shm.Create("test", shm.PageSize)
		require.NoError(t, err)
		require.False(t, r.Sealed())
		require.True(t, s.seal(r))
		require.NoError(t, r.Close())
		require.NoError(t, unix.Shutdown(s.socket, unix.SHUT_RDWR)) // it ends, and no more can be sent
	}
	require.NoError(t, unix.Close(s.socket))
}
