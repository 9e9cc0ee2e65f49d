package shm

import "github.com/klauspost/cpuid/v2"

// CanMonitor reports whether this processor has what AwaitLine is made of: WAITPKG,
// that is UMONITOR, UMWAIT and TPAUSE.
func CanMonitor() bool { return canMonitor }

// Processor returns what this processor calls itself.
func Processor() string {
	if cpuid.CPU.BrandName != "" {
		return cpuid.CPU.BrandName
	}
	return "this processor"
}

// Monitor has the processor watch the line of the word, until the next AwaitLine
// of this thread. Whatever else the thread waits for is to be looked at in between:
// a store to the line that comes after Monitor ends AwaitLine, or keeps it from
// beginning. It touches the word as a load does. Without WAITPKG it does nothing.
func (p *BE32) Monitor() {
	if canMonitor {
		umonitor(&p.w)
	}
}

// AwaitLine rests the core until the line is written to, an interrupt comes, or so
// many cycles have passed: no more than 100,000 where Linux has its way. Without
// WAITPKG it is a PAUSE.
func AwaitLine(cycles uint32) {
	if canMonitor {
		umwait(cycles)
	} else {
		Relax(1)
	}
}

// Rest is AwaitLine that no line ends.
func Rest(cycles uint32) {
	if canMonitor {
		tpause(cycles)
	} else {
		Relax(1)
	}
}
