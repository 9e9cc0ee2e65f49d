package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bad names are refused in words, and long ones get a warning.
func TestDeviceNames(t *testing.T) {
	require.NoError(t, checkNames("run", "", false, 4))
	require.NoError(t, checkNames("run", "mlx5_%d", true, 4))
	require.ErrorContains(t, checkNames("run", "", true, 1), "run: --device-name: a device needs a name")
	require.ErrorContains(t, checkNames("run", "mlx5", true, 2), `device name "mlx5" for 2 devices`)
	require.ErrorContains(t, checkNames("engine", "a/b", true, 1), "engine: --device-name: ")

	for names, warned := range map[string]bool{"": false, "nineteen-bytes-long": false, "nineteen-bytes-%d-lo": true, "mlx5_%d": false} {
		var said bytes.Buffer
		warnNames(&said, names, 11)
		require.Equal(t, warned, bytes.Contains(said.Bytes(), []byte("at most 19")), "%s: %s", names, said.String())
	}
	require.True(t, namedSo([]string{"m0", "m1", "m10", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"}, "m%d"))
	require.False(t, namedSo([]string{"m0", "m1"}, "n%d"))
	require.False(t, namedSo([]string{"m0"}, "m"))
}
