//go:build linux && (amd64 || arm64)

package cm

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
)

// An id is found by its number, on its device, and only by those who may see its user.
func TestIDsOfADevice(t *testing.T) {
	r := newRig(t)
	f := r.host("10.0.0.1").open()
	all, nobody := func(uint32) bool { return true }, func(uint32) bool { return false }
	h := f.create(abi.CMPSTCP, 1)
	require.Empty(t, r.m.IDs(0, all), "it has no device")
	require.Zero(t, f.bind(h, inet("10.0.0.1", 0)))
	listed := r.m.IDs(0, all)
	require.Len(t, listed, 1)
	one, ok := r.m.ID(0, h, all)
	require.True(t, ok)
	require.Equal(t, listed[0], one)
	for _, c := range []struct {
		device int
		number uint32
		sees   func(uint32) bool
	}{{0, h + 1, all}, {1, h, all}, {0, h, nobody}} {
		_, ok := r.m.ID(c.device, c.number, c.sees)
		require.False(t, ok, c)
	}
	f.close()
	r.ends()
}
