package cores

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestShortenSlice(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	undo := ShortenSlice()
	is, err := unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	require.Contains(t, []uint64{was.Runtime, uint64(slice)}, is.Runtime) // older kernels ignore it
	require.Equal(t, was.Nice, is.Nice)
	undo()
	is, err = unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	require.Equal(t, was, is)
}
