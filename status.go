package nicless

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// Status is what the device says of itself and of its work for this context.
// Each number is published by itself; two need not belong to one moment.
type Status struct {
	State string // "running", "stopping" or "gone"

	// Clock is the device clock when the page was last written: some hundred microseconds
	// ago at most while the engine works, and longer while it sleeps. Hz is its cycles in a
	// second. Completions carry times of the same clock.
	Clock, Hz uint64

	WQEs     uint64 // send WQEs executed
	Bytes    uint64 // of payload moved by them
	CQEs     uint64 // completions written
	Failed   uint64 // WQEs that ended with an error
	Receives uint64 // consumed
	Events   uint64 // completion and other events sent

	Explained uint64 // faults explained, also where the explanation was held back
	Stalls    uint64 // times that the engine's thread was delayed by memory of this context's work
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
	if c.closed.Load() { // last: before Close, the page was the device's while it was read
		return Status{}, wrap("status", ErrClosed)
	}
	if c.gone.Load() {
		s.State = control.EngineGone.String() // a device that was killed could not say so
	}
	return s, nil
}
