package engine

import (
	"encoding/binary"
	"fmt"
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
		sig, err := t.waitHere()
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

// waitHere waits as wait does, for some microseconds. The runtime takes no notice: if it gave the processor
// of this thread to another thread each time, as it does in longer system calls, a step would take longer.
func (t *tracer) waitHere() (unix.Signal, error) {
	for {
		_, _, e := unix.RawSyscall6(unix.SYS_WAIT4, uintptr(t.tid), uintptr(t.info.Addr()), unix.WALL, 0, 0, 0)
		status := unix.WaitStatus(binary.LittleEndian.Uint32(t.info.Bytes()))
		switch {
		case e == unix.EINTR:
		case e != 0:
			return 0, fmt.Errorf("wait4: %w", e)
		case !status.Stopped():
			return 0, fmt.Errorf("the thread has ended, status %#x", uint32(status))
		default:
			return status.StopSignal(), nil
		}
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
