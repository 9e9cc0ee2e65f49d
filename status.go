package nicless

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// Status is the device's report about itself and about its work for this context. Each
// number is published separately, so that two numbers need not belong to the same moment.
type Status struct {
	State string // "running", "stopping" or "gone"

	// Clock is the device clock at the last write of the status page. While the engine works,
	// that was at most a few hundred microseconds ago. While it sleeps, that was longer ago.
	// Hz is the number of ticks of the clock in a second. Completions carry times of this
	// clock.
	Clock, Hz uint64

	WQEs     uint64 // send WQEs executed
	Bytes    uint64 // bytes of payload that these WQEs moved
	CQEs     uint64 // completions written
	Failed   uint64 // WQEs that ended with an error
	Receives uint64 // receives consumed
	Events   uint64 // completion events and other events sent

	Explained uint64 // faults explained, including those whose explanation was held back
	Stalls    uint64 // how often memory used by this context's work delayed the engine's thread
}

// Status reads the device's status page. It makes no control call.
func (c *Context) Status() (Status, error) {
	if c.client == nil {
		return Status{}, wrap("status", errZero)
	}
	word := func(off uint64) uint64 { return shm.Word64At(c.statusPage, off).Observe() }
	count := func(n control.Counter) uint64 { return word(n.Offset()) }
	s := Status{
		State: control.EngineState(word(control.StatusState)).String(),
		Clock: word(control.StatusClock), Hz: word(control.StatusHz),
		WQEs: count(control.CounterWQEs), Bytes: count(control.CounterBytes), CQEs: count(control.CounterCQEs),
		Failed: count(control.CounterFailed), Receives: count(control.CounterReceives), Events: count(control.CounterEvents),
		Explained: count(control.CounterExplained), Stalls: count(control.CounterStalls),
	}
	if c.closed.Load() { // checked after the reads: if false, the page was still the device's during them
		return Status{}, wrap("status", ErrClosed)
	}
	if c.gone.Load() {
		s.State = control.EngineGone.String() // a device that was killed could not say so
	}
	return s, nil
}
