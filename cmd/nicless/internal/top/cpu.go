//go:build linux && (amd64 || arm64)

package top

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns the processor time that this process has taken.
func processorTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
