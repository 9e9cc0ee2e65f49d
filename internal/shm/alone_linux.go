package shm

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Alone reports whether the goroutines of this program take turns, on one core
// or one P: then a spinning one keeps the others from what it waits for.
func Alone() bool {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) == nil && allowed.Count() == 1 {
		return true
	}
	return runtime.GOMAXPROCS(0) == 1
}

// Yield lets others run: goroutines of this program, and other threads on this
// core.
func Yield() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
