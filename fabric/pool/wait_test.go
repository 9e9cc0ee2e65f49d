package pool

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that waits for node 0 says so at once, and warns of it once if it waits for long.
func TestWaitingIsTold(t *testing.T) {
	const line = `msg="this node waits until node 0 has formatted the pool" node=1 file=/dev/shm/p why="no node has formatted it" most=`
	for _, row := range []struct {
		wait        time.Duration
		info, warns int
	}{{0, 1, 1}, {2 * patience, 1, 1}, {patience / 2, 1, 0}} {
		w := newWorld(t, 1)
		var out strings.Builder
		_, err := w.start(Config{Node: 1, Path: "/dev/shm/p", Wait: row.wait, Log: slog.New(slog.NewTextHandler(&out, nil))})
		require.ErrorContains(t, err, "no pool after")
		for level, n := range map[string]int{"INFO": row.info, "WARN": row.warns} {
			require.Equal(t, n, strings.Count(out.String(), "level="+level+" "+line), "wait=%v: %s of\n%s", row.wait, level, &out)
		}
		require.Equal(t, row.info+row.warns, strings.Count(out.String(), "\n"), "%s", &out)
	}
	w := newWorld(t, 1)
	var out strings.Builder
	w.mustStart(Config{Node: 0})
	w.mustStart(Config{Node: 1, Log: slog.New(slog.NewTextHandler(&out, nil))})
	require.NotContains(t, out.String(), "waits", "it does not wait")
}
