//go:build linux && (amd64 || arm64)

package main

import (
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that has an engine in it has Ps for the threads that wait, unless the user says how many.
func TestThreadsOfAnEngine(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	up := func() {
		f := netFlags{links: []string{"pool:" + filepath.Join(t.TempDir(), "pool") + ",node=0"}}
		c, err := f.connect(t.Context(), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	t.Setenv("GOMAXPROCS", "3")
	up()
	require.Equal(t, before, runtime.GOMAXPROCS(0))
	t.Setenv("GOMAXPROCS", "")
	up()
	require.Equal(t, before+waitingThreads, runtime.GOMAXPROCS(0))

	f := netFlags{engine: filepath.Join(t.TempDir(), "none.sock")}
	_, err := f.connect(t.Context(), slog.New(slog.DiscardHandler))
	require.Error(t, err)
	require.Equal(t, before+waitingThreads, runtime.GOMAXPROCS(0), "the engine is another process")
}
