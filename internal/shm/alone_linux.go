package shm

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// oneCore says that the program was started on one core. A thread that has been
// put on one core since says nothing of the others.
var oneCore = func() bool {
	var allowed unix.CPUSet
	return unix.SchedGetaffinity(0, &allowed) == nil && allowed.Count() == 1
}()

// Alone reports whether the goroutines of this program take turns, on one core
// or one P: then a spinning one keeps the others from what it waits for.
func Alone() bool { return oneCore || runtime.GOMAXPROCS(0) == 1 }

// Yield lets others run: goroutines of this program, and other threads on this
// core.
func Yield() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
