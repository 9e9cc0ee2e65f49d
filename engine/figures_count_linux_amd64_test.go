package engine

import (
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// count lets the thread run from one mark to the next, one instruction at a time, and then leaves it
// alone. It returns how many instructions the thread has executed, except those of Go's runtime: after
// 10 ms the runtime makes the thread yield, and steps are slow. The process runs the same program as
// this one, so its functions have the same addresses. An instruction that repeats itself counts once, though
// each time is a step: on some processors the runtime copies 2 KiB and more by one (REP MOVSQ).
func (t *tracer) count() (n int, err error) {
	if err := t.untilMark(); err != nil {
		return 0, err
	}
	own := make(map[uint64]bool) // by address of an instruction
	for last := uint64(0); ; {
		var regs syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(t.tid, &regs); err != nil {
			return 0, err
		}
		counts, known := own[regs.Rip]
		if !known {
			counts = isCounted(uintptr(regs.Rip))
			own[regs.Rip] = counts
		}
		if err := unix.PtraceSingleStep(t.tid); err != nil {
			return 0, err
		}
		sig, err := t.wait()
		switch {
		case err != nil:
			return 0, err
		case sig == unix.SIGSTOP:
			return n, unix.PtraceDetach(t.tid)
		case sig == unix.SIGTRAP && counts && regs.Rip != last:
			n++ // other signals are those of the Go runtime, and can be lost
		}
		last = regs.Rip
	}
}

// isCounted reports whether an instruction is in a function of this module, or in one that moves or
// compares memory for it.
func isCounted(pc uintptr) bool {
	f := runtime.FuncForPC(pc)
	if f == nil {
		return false
	}
	name := f.Name()
	if !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, "internal/runtime/") && !strings.HasPrefix(name, "syscall.") {
		return true
	}
	return slices.Contains([]string{"runtime.memmove", "runtime.memclrNoHeapPointers", "runtime.memequal", "runtime.duffcopy", "runtime.duffzero"}, name)
}
