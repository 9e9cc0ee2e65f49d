package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each device that is given access reaches the memory.
func TestAccessOfDevices(t *testing.T) {
	s := New(Config{Devices: 2})
	at, c := s.Reserve(Granularity, Granularity, 0)
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

// Memory that is mapped has one handle, which is released as often as it was given, also after the mapping
// has ended. NCCL releases the handle of Create in this way, which it has not kept.
func TestRetainGivesSameHandle(t *testing.T) {
	s := New(Config{Devices: 1})
	at, c := s.Reserve(Granularity, Granularity, 0)
	require.Equal(t, Success, c)
	p, c := s.Create(Granularity)
	require.Equal(t, Success, c)
	require.Equal(t, Success, s.Map(at, Granularity, 0, p))
	again, c := s.Retain(at)
	require.Equal(t, Success, c)
	require.Equal(t, p, again)
	require.Equal(t, Success, s.Release(again))
	require.Equal(t, Success, s.Unmap(at, Granularity))
	require.Equal(t, Success, s.Release(again))
	require.Equal(t, InvalidValue, s.Release(again))

	p, c = s.Create(Granularity)
	require.Equal(t, Success, c)
	require.Equal(t, Success, s.Map(at, Granularity, 0, p))
	require.Equal(t, Success, s.Release(p), "only the mapping holds it")
	again, c = s.Retain(at)
	require.Equal(t, Success, c)
	require.Equal(t, Success, s.Release(again))
	require.Equal(t, Success, s.Unmap(at, Granularity))
	require.Equal(t, Success, s.Unreserve(at, Granularity))
}
