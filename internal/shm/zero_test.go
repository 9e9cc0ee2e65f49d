//go:build linux

package shm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pages that a file has no more are an error, and not the end of the program.
func TestZero(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(4*PageSize))
	r, err := AttachPart(f, PageSize, 3*PageSize)
	require.NoError(t, err)
	defer r.Close()
	r.Bytes()[2*PageSize] = 1
	require.NoError(t, Zero(r.Bytes()))
	require.Zero(t, r.Bytes()[2*PageSize])
	require.NoError(t, f.Truncate(2*PageSize))
	require.NoError(t, Zero(r.Bytes()[:PageSize]))
	require.ErrorIs(t, Zero(r.Bytes()), errNoPages)
}
