package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each device that is given access reaches the memory.
func TestAccessOfDevices(t *testing.T) {
	s := New(Config{Devices: 2})
	at, c := s.Reserve(Granularity, 0)
	require.Equal(t, Success, c)
	p, c := s.Create(Granularity)
	require.Equal(t, Success, c)
	require.Equal(t, Success, s.Map(at, Granularity, 0, p))
	for _, d := range s.devices {
		require.False(t, d.space.Has(at, 1))
		require.Equal(t, Success, d.SetAccess(at, Granularity))
		require.Equal(t, Success, d.SetAccess(at, Granularity), "once more")
		require.True(t, d.space.Has(at, Granularity))
	}
	require.Equal(t, Success, s.Unmap(at, Granularity))
	for _, d := range s.devices {
		require.False(t, d.space.Has(at, 1))
	}
	require.Equal(t, Success, s.Unreserve(at, Granularity))
	require.Equal(t, Success, s.Release(p))
}
