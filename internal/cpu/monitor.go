package cpu

// CanMonitor reports whether this processor can wait for a store to a cache line, with
// the instructions of WAITPKG: UMONITOR, UMWAIT and TPAUSE.
func CanMonitor() bool { return canMonitor }

// Monitor has the processor watch the cache line of the word at p until the next
// MonitorWait of this thread (UMONITOR). A store to the line after Monitor ends
// MonitorWait, or keeps it from beginning; so a caller checks everything else that it
// waits for between the two. Monitor touches the word as a load does. Without WAITPKG it
// does nothing.
func Monitor(p *uint32) {
	if canMonitor {
		umonitor(p)
	}
}

// MonitorWait rests the core until the watched line is written to, an interrupt comes, or
// so many cycles have passed (UMWAIT). Linux limits the wait to 100,000 cycles by default.
// Without WAITPKG it is Relax(1).
func MonitorWait(cycles uint32) {
	if canMonitor {
		umwait(cycles)
	} else {
		Relax(1)
	}
}

// TimedPause is MonitorWait without a watched line (TPAUSE).
func TimedPause(cycles uint32) {
	if canMonitor {
		tpause(cycles)
	} else {
		Relax(1)
	}
}
