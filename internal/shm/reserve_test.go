package shm

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Close of a reserved region frees the memory at once, and leaves zeros at its addresses until
// Release.
func TestReserve(t *testing.T) {
	r, err := Create("reserved", 3*PageSize)
	require.NoError(t, err)
	late := r.Bytes()
	late[0], late[2*PageSize] = 1, 2
	r.Reserve()
	for range 2 {
		require.NoError(t, r.Close())
		require.Empty(t, r.Bytes())
		require.Zero(t, late[0])
		require.NotContains(t, mappings(t), "nicless:reserved")
		late[2*PageSize] = 3
		require.Equal(t, byte(3), late[2*PageSize])
	}
	require.NoError(t, unix.Msync(late, unix.MS_ASYNC), "mapped")
	require.NoError(t, r.Release())
	require.ErrorIs(t, unix.Msync(late, unix.MS_ASYNC), unix.ENOMEM, "not mapped")
	require.NoError(t, r.Release())

	// If two callers have reserved a region, it stays reserved after the Release of one.
	for _, order := range [][2]func(*Region) error{{(*Region).Close, (*Region).Release}, {(*Region).Release, (*Region).Close}} {
		r, err = Create("reserved", PageSize)
		require.NoError(t, err)
		late = r.Bytes()
		r.Reserve()
		r.Reserve()
		for _, f := range order {
			require.NoError(t, f(r))
		}
		require.NoError(t, unix.Msync(late, unix.MS_ASYNC), "mapped")
		require.NoError(t, r.Release())
		require.ErrorIs(t, unix.Msync(late, unix.MS_ASYNC), unix.ENOMEM, "not mapped")
	}

	// A region that was released before it is closed is like any other.
	r, err = Create("reserved", PageSize)
	require.NoError(t, err)
	late = r.Bytes()
	r.Reserve()
	require.NoError(t, r.Release())
	late[0] = 1
	require.NoError(t, r.Close())
	require.ErrorIs(t, unix.Msync(late, unix.MS_ASYNC), unix.ENOMEM, "not mapped")
}

func mappings(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}
