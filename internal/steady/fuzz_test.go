//go:build linux

package steady

import (
	"testing"

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
