package cpu

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// startedOnOneCore reports whether the program was started on one core. It is asked once,
// at the start: a thread that is pinned to one core later says nothing about the others.
var startedOnOneCore = func() bool {
	var allowed unix.CPUSet
	return unix.SchedGetaffinity(0, &allowed) == nil && allowed.Count() == 1
}()

// Uniprocessor reports whether only one goroutine of this program runs at a time, because
// it has one core or one P. Then a goroutine that spins keeps all others from running,
// among them the one that it waits for.
func Uniprocessor() bool { return startedOnOneCore || runtime.GOMAXPROCS(0) == 1 }

// Yield lets others run: goroutines of this program, and other threads on this core.
func Yield() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
