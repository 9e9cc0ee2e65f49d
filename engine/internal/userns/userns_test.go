//go:build linux && (amd64 || arm64)

package userns

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutside(t *testing.T) {
	for _, row := range []struct {
		name, text string
		overflow   string
		uid        uint32
		outside    uint32
		ok         bool
	}{
		{"the first namespace", "         0          0 4294967295\n", "65534\n", 1000, 1000, true},
		{"root of a container", "0 1000 1\n1 100000 65536\n", "65534", 0, 1000, true},
		{"another user of a container", "0 1000 1\n1 100000 65536\n", "65534", 33, 100032, true},
		{"a user without a uid", "0 1000 1\n1 100000 65536\n", "65534", 65534, 0, false},
		{"another overflow uid", "0 0 4294967295", "7", 7, 0, false},
		{"no map", "", "65534", 0, 0, false},
		{"beyond the map", "0 1000 1", "65534", 1, 0, false},
		{"no number", "0 x 1\n0 5 1 1\n", "", 0, 0, false},
		{"beyond all uids", "0 4294967290 10", "", 5, 0, false},
	} {
		got, ok := parse([]byte(row.text), []byte(row.overflow)).Outside(row.uid)
		require.Equal(t, row.ok, ok, row.name)
		require.Equal(t, row.outside, got, row.name)
	}
}

// The map of this process has its own uid.
func TestRead(t *testing.T) {
	_, ok := Read().Outside(uint32(os.Getuid()))
	require.True(t, ok || os.Getuid() == 65534)
}
