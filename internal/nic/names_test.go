package nic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A name is possible if Linux takes it as the name of a device, with the device's number in place of %d.
func TestNames(t *testing.T) {
	for names, want := range map[Names][]string{
		"":               {"nicless0", "nicless1", "nicless31"},
		"mlx5_%d":        {"mlx5_0", "mlx5_1", "mlx5_31"},
		"a%db":           {"a0b", "a1b", "a31b"},
		"rocep%ds0 f:ü!": {"rocep0s0 f:ü!", "rocep1s0 f:ü!", "rocep31s0 f:ü!"},
	} {
		require.NoError(t, names.Check(MaxPorts), names)
		for i, n := range []uint8{0, 1, MaxPorts - 1} {
			require.Equal(t, want[i], names.Of(n))
		}
	}
	require.NoError(t, Names("mlx5").Check(1))
	require.NoError(t, Names(strings.Repeat("x", MaxName)).Check(1))
	require.NoError(t, Names(strings.Repeat("x", MaxName-1)+"%d").Check(10), "its last name has 63 bytes")

	for names, speaks := range map[Names]string{
		Names(strings.Repeat("x", MaxName+1)):        "64 bytes; at most 63",
		Names(strings.Repeat("x", MaxName-1) + "%d"): "64 bytes; at most 63",
		"%d%d":      "at most one %",
		"mlx5_%s%d": "at most one %",
		"mlx5_%":    "at most one %",
		".":         "no name of a file",
		"..":        "no name of a file",
		"mlx5":      `"mlx5" for 11 devices; %d in the name is their number, as in "mlx5_%d"`,
		"a/%d":      "'/'",
		"a\n%d":     `'\n'`,
		"a\x00%d":   `'\x00'`,
		"a\xff%d":   `has the character`,
	} {
		require.ErrorContains(t, names.Check(11), speaks, names)
	}
}
