//go:build linux && (amd64 || arm64)

package cores

import (
	"time"

	"golang.org/x/sys/unix"
)

// slice is how long a thread asks to run at a time. The shorter its slice, the sooner a
// thread is given a core when it wakes (Linux 6.12; older kernels ignore it).
const slice = 100 * time.Microsecond

// ShortenSlice asks the kernel for short time slices for the calling thread, until undo is
// called on the same thread. Threads with real-time or batch policies are left alone.
func ShortenSlice() (undo func()) {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return func() {}
	}
	was := *attr
	attr.Runtime = uint64(slice)
	if attr.Policy != unix.SCHED_NORMAL || unix.SchedSetAttr(0, attr, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetAttr(0, &was, 0) }
}
