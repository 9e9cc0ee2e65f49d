// Package clock is the device clock: a free-running counter that is cheap
// enough to read at every step and for every completion.
//
// Terms: a cycle is one tick of the counter, not of a core. The counter's rate does not
// change with the frequency of the cores. The counter's value at the start is arbitrary.
//
// The counter is the TSC on amd64 and CNTVCT_EL0 on arm64. Both are read
// without a fence, so the processor may read them a few instructions early or
// late. On an amd64 machine without an invariant TSC a cycle is one nanosecond
// of the monotonic clock instead.
//
//   - clock.go: the rate of the counter, and conversions
//   - counter_*.go: reads the counter of a processor
//   - system_*.go: the monotonic clock of the system
package clock

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

// second is a second in nanoseconds.
const second = uint64(time.Second)

var frequency struct {
	once sync.Once
	hz   uint64
}

// Hz returns the number of cycles in a second, always above 0. The first call may take a
// few milliseconds to measure the number, with an error of about 20 parts in a million.
// Later calls return the same number. Safe for concurrent use.
func Hz() uint64 {
	frequency.once.Do(func() { frequency.hz = findHz() })
	return frequency.hz
}

func findHz() uint64 {
	if monotonic {
		return second
	}
	if hz := statedHz(); hz != 0 {
		return hz
	}
	return measureHz(4 * time.Millisecond)
}

// Duration returns how long this number of cycles takes, rounded down. If that is more than
// the longest time.Duration, it returns the longest.
func Duration(cycles uint64) time.Duration {
	return time.Duration(min(scale(cycles, second, Hz()), math.MaxInt64))
}

// Cycles returns how many cycles pass in d, rounded down. It returns 0 if d is negative and
// the largest uint64 if the number of cycles is larger than that.
func Cycles(d time.Duration) uint64 {
	return scale(uint64(max(d, 0)), Hz(), second)
}

// After returns the clock's value a time after now. If that has more than 64 bits, it returns the largest
// uint64.
func After(now uint64, d time.Duration) uint64 {
	sum, carry := bits.Add64(now, Cycles(d), 0)
	return sum | -carry
}

// scale returns v*mul/div without losing high bits. If the result has more than 64 bits, it
// returns the largest uint64.
func scale(v, mul, div uint64) uint64 {
	hi, lo := bits.Mul64(v, mul)
	if hi >= div {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, div)
	return q
}

// start is when this process read the clocks for the first time. base is what the system's
// monotonic clock showed then, which other processes can read too: on Linux it is at most that,
// and less by some nanoseconds. Elsewhere it is 0.
var start, base = begin()

// nanoseconds returns the monotonic clock. On Linux that is CLOCK_MONOTONIC.
func nanoseconds() uint64 { return base + uint64(time.Since(start)) }

func begin() (start time.Time, base uint64) {
	start = time.Now()
	best := uint64(math.MaxUint64)
	for range 16 {
		before := systemMonotonic()
		since := uint64(time.Since(start))
		if gap := systemMonotonic() - before; gap < best {
			best, base = gap, before-since
		}
	}
	return start, base
}

// measureHz counts cycles for at least d of the monotonic clock and returns the cycles in a
// second. A sleep that is longer than d does no harm, because the counter and the monotonic
// clock are both read again after it.
func measureHz(d time.Duration) uint64 {
	c0, n0 := together()
	time.Sleep(d)
	c1, n1 := together()
	return max(scale(c1-c0, second, n1-n0), 1)
}

// together reads the counter and the monotonic clock at nearly the same time. It tries several times and
// returns the reading of the try that took the least time.
func together() (cycles, nanos uint64) {
	best := uint64(math.MaxUint64)
	for range 32 {
		before := Now()
		n := nanoseconds()
		if gap := Now() - before; gap < best {
			best, cycles, nanos = gap, before+gap/2, n
		}
	}
	return cycles, nanos
}
