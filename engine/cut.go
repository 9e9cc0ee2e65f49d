//go:build linux && (amd64 || arm64)

package engine

// A part is a part of a step. When a fault of memory ends a step early, the next step
// continues after the point at which the fault ended it. So the faults of one client do
// not keep the device from other clients: the device still visits every queue pair and
// retries every stalled one.
type part uint8

const (
	whole     part = iota // the step was not ended early
	cutVisits             // ended in visitClients; sched.from is the index of the client after the faulting one
	cutRetry              // ended in the retries of stalled queues
	cutLast               // ended in polls of cold queues or arm words, or in diagnose
)

// cutOff notes that a fault ends the current step in the part fault.part.
func (sh *threadLoop) cutOff() {
	sh.fault.cut = sh.fault.part
	if sh.fault.part == cutLast {
		sh.fault.cut = whole // little of the step was left, and the next step polls another queue
	}
	sh.fault.part = cutVisits
}
