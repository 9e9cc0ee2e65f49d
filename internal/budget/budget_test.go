package budget

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBucket(t *testing.T) {
	b, now := NewBucket(Rate{PerSecond: 10, Burst: 3}), time.Now()
	for range 3 {
		require.True(t, b.Take(now, 1))
	}
	require.False(t, b.Take(now, 1))
	require.InDelta(t, 100*time.Millisecond, b.Wait(now, 1), 100)
	now = now.Add(b.Wait(now, 1))
	require.Zero(t, b.Wait(now, 1))
	require.True(t, b.Take(now, 1))
	require.False(t, b.Take(now.Add(-time.Hour), 1), "a clock that goes back gives nothing")
	now = now.Add(time.Hour)
	require.False(t, b.Take(now, 3.5), "more than the burst")
	require.True(t, b.Take(now, 3))
}

func source(n int) (s [16]byte) {
	binary.BigEndian.PutUint64(s[8:], uint64(n))
	return s
}

// A source that takes all it can leaves others theirs; very many sources together have what all may have.
func TestSources(t *testing.T) {
	s, now := NewSources(Rate{1, 5}, Rate{1, 50}), time.Now()
	took := 0
	for range 1000 {
		if s.Take(source(1), now) {
			took++
		}
	}
	require.Equal(t, 5, took)
	for n := range 10_000 {
		if s.Take(source(2+n), now) {
			took++
		}
	}
	require.Equal(t, 50, took)
	require.False(t, s.Take(source(1), now))
	require.False(t, s.Alone(source(1), now), "it took all it can")
	require.True(t, s.Alone(source(1), now.Add(time.Second)), "a source that does not count among the others")
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Take(source(7), now) }))
}
