//go:build linux && (amd64 || arm64)

package scratch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A directory stays as long as the one who made it lives, however old it is. After that the next run removes
// it.
func TestOldDirectoriesAreRemoved(t *testing.T) {
	in := t.TempDir()
	mine, remove, err := Make(in)
	require.NoError(t, err)
	killed, err := os.MkdirTemp(in, prefix) // without a lock, as after the end of its process
	require.NoError(t, err)
	fresh, err := os.MkdirTemp(in, prefix)
	require.NoError(t, err)
	old := time.Now().Add(-2 * young)
	require.NoError(t, unix.Mkfifo(filepath.Join(in, prefix+"fifo"), 0o600)) // which is not waited for
	require.NoError(t, os.Chtimes(mine, old, old))
	require.NoError(t, os.Chtimes(killed, old, old))

	_, again, err := Make(in)
	require.NoError(t, err)
	require.DirExists(t, mine)
	require.DirExists(t, fresh)
	require.NoDirExists(t, killed)
	again()
	remove()
	require.NoDirExists(t, mine)
}

// The message of a full or missing directory names it.
func TestNoDirectory(t *testing.T) {
	_, _, err := Make("/proc/self")
	require.ErrorContains(t, err, "/proc/self/nicless-torture-run-")
}
