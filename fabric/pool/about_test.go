package pool

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// About says which node this is, that it is alone, and that its file was removed or replaced.
func TestAbout(t *testing.T) {
	w := newWorld(t, 1)
	a := w.mustStart(Config{Node: 0, Nodes: 3})
	w.pass(tick)
	require.Equal(t, "node 0 of 3; no other node has been seen", a.pool.About())
	b := w.mustStart(Config{Node: 2})
	w.until(time.Second, func() bool { return b.pool.About() == "node 2 of 3" }, "each sees the other")
	require.Equal(t, "node 0 of 3", a.pool.About())

	path := filepath.Join(t.TempDir(), "pool")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	a.pool.file = newMapped(path)
	require.Equal(t, "node 0 of 3", a.pool.About())
	require.NoError(t, os.Rename(path, path+".old"))
	require.Equal(t, "node 0 of 3; the file was removed: engines that start now begin another pool", a.pool.About())
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.Equal(t, "node 0 of 3; another file is at its path: engines that start now are in another pool", a.pool.About())
}
