package engine

// A part of a step, at which a fault of memory has cut it off. The next step
// goes on behind that, lest one client's faults keep the device from the others:
// in turn, every queue pair is visited, and everybody who waits is looked at.
type part uint8

const (
	whole     part = iota // it was not cut off
	cutVisits             // in the turn before e.from
	cutRetry
	cutLast
)

// cutOff says that the step which is at work ends here.
func (sh *shard) cutOff() {
	sh.fault.cut = sh.fault.part
	if sh.fault.part == cutLast {
		sh.fault.cut = whole // little is left of it, and the next is another queue's turn
	}
	sh.fault.part = cutVisits
}
