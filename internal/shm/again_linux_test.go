package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A region that is mapped again has the same bytes at other addresses, and can be sealed afterwards.
func TestMapAgain(t *testing.T) {
	r, err := Create("again", 3*PageSize)
	require.NoError(t, err)
	defer r.Close()
	own, err := r.MapAgain()
	require.NoError(t, err)
	require.NoError(t, r.Seal())
	require.NoError(t, r.CloseFile())
	require.NotEqual(t, r.Addr(), own.Addr())
	require.Equal(t, r.Size(), own.Size())
	require.True(t, own.Sealed())
	r.Bytes()[2*PageSize] = 7
	require.Equal(t, byte(7), own.Bytes()[2*PageSize])
	own.Bytes()[2*PageSize]++
	require.NoError(t, own.Close())
	require.Equal(t, byte(8), r.Bytes()[2*PageSize])
	_, err = r.MapAgain()
	require.ErrorIs(t, err, ErrClosed, "its file is closed")
}
