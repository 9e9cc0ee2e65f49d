package clock

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNowNeverGoesBackOnOneThread(t *testing.T) {
	last := Now()
	for range 10000 {
		now := Now()
		require.LessOrEqual(t, last, now)
		last = now
	}
}

// The test reads the cycles before and after each reading of the monotonic clock, so that a
// pause between any two readings only widens the bounds.
func TestHzAgreesWithTheMonotonicClock(t *testing.T) {
	outer0, t0, inner0 := Now(), time.Now(), Now()
	for time.Since(t0) < 20*time.Millisecond {
	}
	inner1, took, outer1 := Now(), time.Since(t0), Now()

	assert.Less(t, Duration(inner1-inner0), took+took/100)
	assert.Greater(t, Duration(outer1-outer0), took-took/100)
	assert.Equal(t, Hz(), Hz())
}

func TestMeasuredAndStatedFrequencyAgree(t *testing.T) {
	if monotonic {
		t.Skip("no counter of constant rate")
	}
	assert.InEpsilon(t, float64(Hz()), float64(measureHz(4*time.Millisecond)), 0.01)
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		name             string
		v, mul, div, out uint64
	}{
		{"identity", 12345, 7, 7, 12345},
		{"rounds down", 10, 1, 3, 3},
		{"needs 128 bits between", math.MaxUint64, second, second, math.MaxUint64},
		{"a year at 3 GHz", 3e9 * 86400 * 365, second, 3e9, 86400 * 365 * second},
		{"saturates", math.MaxUint64, second, 24e6, math.MaxUint64},
		{"zero", 0, second, 3e9, 0},
	} {
		assert.Equal(t, c.out, scale(c.v, c.mul, c.div), c.name)
	}
}

func TestConversionsAtTheirEnds(t *testing.T) {
	assert.Zero(t, Cycles(-time.Second))
	assert.Zero(t, Cycles(0))
	assert.Zero(t, Duration(0))
	assert.Equal(t, Hz(), Cycles(time.Second))
	assert.Equal(t, time.Second, Duration(Hz()))
	assert.GreaterOrEqual(t, Duration(math.MaxUint64), Duration(math.MaxUint64/2))
	assert.Positive(t, Duration(math.MaxUint64))
}

func TestAfterDoesNotWrap(t *testing.T) {
	assert.EqualValues(t, 7, After(7, 0))
	assert.EqualValues(t, 7, After(7, -time.Second))
	assert.Equal(t, 7+Hz(), After(7, time.Second))
	assert.EqualValues(t, uint64(math.MaxUint64), After(math.MaxUint64-1, time.Second))
	assert.GreaterOrEqual(t, After(1<<63, math.MaxInt64), uint64(1<<63))
}

func TestCyclesThenDurationLosesLessThanACycle(t *testing.T) {
	tick := time.Duration(second/Hz() + 1)
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "d"))
		back := Duration(Cycles(d))
		if back > d || d-back > tick {
			t.Fatalf("%v became %v", d, back)
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	Hz()
	var sum uint64
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		sum += Now() + Cycles(time.Microsecond) + uint64(Duration(1000))
	}))
}

func BenchmarkNow(b *testing.B) {
	var sum uint64
	for b.Loop() {
		sum += Now()
	}
	_ = sum
}
