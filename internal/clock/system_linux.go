package clock

import "golang.org/x/sys/unix"

// systemMonotonic returns CLOCK_MONOTONIC in nanoseconds.
func systemMonotonic() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("clock: CLOCK_MONOTONIC: " + err.Error()) // every Linux has it
	}
	return uint64(t.Nano())
}
