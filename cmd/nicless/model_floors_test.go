package main

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/nicless/nicless/tools/calibrate"
	"github.com/nicless/nicless/tools/costs"
	"github.com/stretchr/testify/require"
)

var floorsFlag = flag.Bool("floors", false, "measure the floors of this machine, and compare them with the model")

// TestFloorsOfThisMachine measures prices and floors, and compares them: the model predicts each floor that
// is held out within 10 %. Other programs disturb measurements, so there are five attempts.
func TestFloorsOfThisMachine(t *testing.T) {
	if !*floorsFlag {
		t.Skip("measures for some seconds; -floors runs it")
	}
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("needs two cores")
	}
	const tolerance = 10
	for range 5 {
		rows, err := localRows(t.Context(), calibrate.Options{Cores: [2]int{-1, -1}}, tolerance)
		require.NoError(t, err)
		worst, held := 0.0, 0
		for _, r := range rows {
			off := (r.Predicted/r.Measured - 1) * 100
			t.Logf("%-40s measured %4.0f ns, predicted %+.1f %%, %s", r.ID, r.Measured, off, r.Role)
			if r.Role == costs.HeldOut {
				worst, held = max(worst, math.Abs(off)), held+1
			}
		}
		require.GreaterOrEqual(t, held, 5)
		if worst <= tolerance {
			return
		}
	}
	t.Errorf("five times, a floor was not within %d %% of its prediction", tolerance)
}

// A reader never sees half of a preset, and a file that cannot be replaced leaves nothing behind.
func TestReplaceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.toml")
	for _, text := range []string{"first, and longer", "second"} {
		require.NoError(t, replaceFile(path, []byte(text)))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	before, err := os.Open(path)
	require.NoError(t, err)
	defer before.Close()
	require.NoError(t, replaceFile(path, []byte("third")))
	old := make([]byte, 100)
	n, _ := before.Read(old)
	require.Equal(t, "second", string(old[:n]), "an open file keeps all of its text")

	folder := filepath.Join(filepath.Dir(path), "folder")
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.Error(t, replaceFile(folder, nil))
	list, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, list, 2)
}
