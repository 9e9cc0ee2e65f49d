package cpu

// CanMonitor reports whether this processor can wait for a store to a cache line, with
// the instructions of WAITPKG: UMONITOR, UMWAIT and TPAUSE.
func CanMonitor() bool { return canMonitor }

// Monitor makes the processor watch the cache line of the word at p until the next
// MonitorWait of this thread (UMONITOR). If the line is stored to after Monitor, MonitorWait
// ends, or returns at once if it has not begun. Between Monitor and MonitorWait a caller
// checks everything else that it waits for. Monitor touches the word as a load does. Without
// WAITPKG it does nothing.
func Monitor(p *uint32) {
	if canMonitor {
		umonitor(p)
	}
}

// MonitorWait rests the core until the watched line is stored to, an interrupt comes, or
// this number of cycles has passed (UMWAIT). Linux limits the wait to 100,000 cycles by
// default. Without WAITPKG it is Relax(1).
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
