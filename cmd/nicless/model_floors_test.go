package main

import (
	"flag"
	"math"
	"runtime"
	"testing"

	"github.com/nicless/nicless/cmd/nicless/internal/calibrate"
	"github.com/nicless/nicless/model"
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
			if r.Role == model.HeldOut {
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
