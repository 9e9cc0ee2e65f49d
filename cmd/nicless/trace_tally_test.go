package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// A record says at its end how many events it has, and how many are missing.
func TestTraceTally(t *testing.T) {
	x := tracetest.New(t)
	x.Queue(0x51, 1, 0x52, trace.RC, 0)
	for _, n := range []uint64{17, 3} {
		x.Add(trace.Event{Kind: trace.KindLost, Value: n})
	}
	name := filepath.Join(t.TempDir(), "lost.nictrace")
	require.NoError(t, os.WriteFile(name, tracetest.File(t, x.Events), 0o644))
	recorded := func(live bool, out string) string {
		in, err := openTrace(name, nil)
		require.NoError(t, err)
		defer in.Close()
		in.live = live
		var b, errs strings.Builder
		f := traceFlags{out: out}
		require.NoError(t, f.show(in, &b, &traceForms[0], &errs))
		return errs.String()
	}
	require.Empty(t, recorded(false, "x.txt"))
	const want = ": 1 event; 20 events lost in 2 gaps, because the watch was too slow"
	require.Contains(t, recorded(true, "x.txt"), "nicless: note: x.txt"+want)
	require.Contains(t, recorded(true, ""), "nicless: note: standard output"+want)
}
