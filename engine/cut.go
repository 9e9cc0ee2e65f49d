//go:build linux && (amd64 || arm64)

package engine

// A part is a part of a step. When a fault of memory ends a step early, the next step
// goes on behind the part in which that was, so that one client's faults do not keep the
// device from other clients: all queue pairs are visited in turn, and all that wait are
// looked at.
type part uint8

const (
	whole     part = iota // the step was not ended early
	cutVisits             // in the turn before sched.from
	cutRetry
	cutLast
)

// cutOff notes that the current step ends here.
func (sh *shard) cutOff() {
	sh.fault.cut = sh.fault.part
	if sh.fault.part == cutLast {
		sh.fault.cut = whole // little was left of the step, and the next one looks at another queue
	}
	sh.fault.part = cutVisits
}
