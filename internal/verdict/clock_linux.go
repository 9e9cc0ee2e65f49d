package verdict

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time of CLOCK_MONOTONIC, which is the same in all processes, is never set, and stands
// still while the machine is suspended.
func Now() time.Duration { return read(unix.CLOCK_MONOTONIC) }

// Suspended returns how long the machine has been suspended since it started: CLOCK_BOOTTIME goes on
// meanwhile. Tests replace it.
var Suspended = func() time.Duration { return max(0, read(unix.CLOCK_BOOTTIME)-read(unix.CLOCK_MONOTONIC)) }

func read(clock int32) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
