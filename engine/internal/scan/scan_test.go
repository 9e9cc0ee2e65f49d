//go:build linux && (amd64 || arm64)

package scan

import (
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
)

// attack sends packets at a rate for some time, and returns how many were looked at.
func attack(l *Limiter, from uint64, rate int, d time.Duration) (judged int, end uint64) {
	step, end := clock.Cycles(time.Second)/uint64(rate), from+clock.Cycles(d)
	for now := from; now < end; now += step {
		if l.StaysClosed(now) {
			continue
		}
		l.Open()
		judged++
		l.Count(now)
	}
	return judged, end
}

// However fast a scan is, the packets of it that are looked at are bounded.
func TestScansAreBounded(t *testing.T) {
	for _, rate := range []int{1000, 5000, 100_000, 1_400_000} {
		const d = 12 * time.Second
		judged, _ := attack(new(Limiter), 1000, rate, d)
		require.LessOrEqual(t, judged, Burst+Rate*12+PerOpening, "at %d a second", rate)
		require.GreaterOrEqual(t, judged, Rate*12, "the path opens again and again")
	}
	hours := float64(1<<24) / Rate / 3600
	require.Greater(t, hours, 9.0)
}

// A path closes when a burst has come, opens after a while for some packets, and is as new after it was
// left alone.
func TestAPathClosesAndOpens(t *testing.T) {
	l, now := new(Limiter), uint64(1)
	for i := range Burst - 1 {
		require.False(t, l.Count(now), i)
		require.Equal(t, i+1 >= DoubtAfter, l.Doubtful(now), i)
	}
	require.False(t, l.StaysClosed(now))
	require.True(t, l.Count(now))
	require.True(t, l.StaysClosed(now))
	n, since := l.Counted(now)
	require.Equal(t, uint64(Burst), n)
	require.Zero(t, since)
	require.True(t, l.StaysClosed(now+PerOpening*each()-1))
	now += PerOpening * each()
	require.False(t, l.StaysClosed(now))
	require.True(t, l.HasClosed())
	l.Open()
	require.False(t, l.HasClosed())
	for i := range PerOpening {
		require.Equal(t, i == PerOpening-1, l.Count(now), i)
	}
	require.True(t, l.StaysClosed(now))
	require.False(t, l.IsOver(now+Burst*each()-1))
	now += Burst * each()
	require.True(t, l.IsOver(now))
	require.False(t, l.StaysClosed(now))
	require.False(t, l.Doubtful(now))
	require.False(t, l.Count(now))
	n, _ = l.Counted(now)
	require.Equal(t, uint64(1), n)
}

// Packets at less than the rate never count for more than one another.
func TestFewPacketsCountForNothing(t *testing.T) {
	l := new(Limiter)
	judged, end := attack(l, 1, Rate/2, 60*time.Second)
	require.InDelta(t, 60*Rate/2, judged, 1)
	require.False(t, l.Doubtful(end))
}
