package cpu

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// startedOnOneCore says whether the program was started on one core. It is found out once,
// at the start, because a thread may later be pinned to one core while others are not.
var startedOnOneCore = func() bool {
	var allowed unix.CPUSet
	return unix.SchedGetaffinity(0, &allowed) == nil && allowed.Count() == 1
}()

// Uniprocessor reports whether only one goroutine of this program runs at a time, because
// the program has one core or one P. A goroutine that spins then keeps all others from
// running, including the goroutine that it waits for.
func Uniprocessor() bool { return startedOnOneCore || runtime.GOMAXPROCS(0) == 1 }

// Yield lets others run: goroutines of this program, and other threads on this core.
func Yield() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
