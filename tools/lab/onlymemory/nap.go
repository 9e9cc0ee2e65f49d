//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps. Go's own timers may take a millisecond when nothing else runs in the program.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}
