//go:build linux && (amd64 || arm64)

package replay_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The traces of testdata/replays are regression tests: programs of rdma-core and perftest, and one that makes
// its queues by firmware commands.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("../../testdata/replays/*.nictrace")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 6)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			r := same(t, b)
			require.NotZero(t, r.Messages)
			require.Zero(t, r.Unseen)
		})
	}
}

// A damaged trace ends a replay with a report or an error, and nothing else.
func FuzzReplay(f *testing.F) {
	files, err := filepath.Glob("../../testdata/replays/*.nictrace")
	require.NoError(f, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { replayDamaged(b) })
}
