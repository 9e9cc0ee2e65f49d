//go:build linux

package steady

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatFuzzersSay(t *testing.T) {
	name, isNew := failing([]byte("--- FAIL: FuzzA (0.10s)\n    Failing input written to testdata/fuzz/FuzzA/0123\n"))
	require.Equal(t, "FuzzA/0123", name)
	require.True(t, isNew)
	name, isNew = failing([]byte("fuzz: elapsed: 0s, x\nfailure while testing seed corpus entry: FuzzA/seed#1\n--- FAIL: FuzzA (0.10s)\n"))
	require.Equal(t, "FuzzA/seed#1", name)
	require.False(t, isNew)
	name, _ = failing([]byte("--- FAIL: FuzzA (10.01s)\n    context deadline exceeded\n"))
	require.Empty(t, name)

	require.True(t, timeOver.MatchString("--- FAIL: FuzzA (10.01s)\n    context deadline exceeded\nFAIL\n"))
	require.False(t, timeOver.MatchString("--- FAIL: FuzzA (0.01s)\n    a_test.go:12: context deadline exceeded\n"))
	require.False(t, timeOver.MatchString("--- FAIL: FuzzA (0.01s)\n    --- FAIL: FuzzA (0.00s)\n        context deadline exceeded\n"))
}

// With less time than Go's fuzzer needs to call an input hung, it would pass.
func TestFuzzTimeFindsHangs(t *testing.T) {
	p := Plan{Suites: []Suite{{Name: "fuzz", Fuzz: true}}, Runs: 1, Procs: []int{1}, FuzzTime: 10 * time.Second, Log: io.Discard}
	_, err := p.Run(t.Context())
	require.ErrorContains(t, err, "10s for each fuzz target")
	require.Greater(t, DefaultFuzzTime, 2*hungAfter)
}
