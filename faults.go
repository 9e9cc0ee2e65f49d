package nicless

import (
	"encoding/json"
	"fmt"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
)

// Faults are rules of faults that an engine obeys. Its methods are safe for concurrent use.
type Faults struct {
	c *Context // is not collected while the program has the Faults
	*faultState
}

// A faultState is the state of a Faults; client.faulting guards it.
type faultState struct {
	acted []uint64 // how often each rule has acted, when that was asked last
	ended bool
}

// Faults makes the engine obey rules of faults, for the clients that a Watch of this context could watch, and
// for the context itself: their requests fail, wait or get lost as the rules say. docs/FAULTS.md describes
// the rules. They are all checked before anything changes.
//
// The rules last until Close of the Faults or of the context. A context has one Faults at a time: another one
// takes the place of the one before it, and no queue pair obeys none or both in between. Errors are those of
// fault.Rules.Check and refusals of the engine, or say that the engine is older than protocol 2.6.
func (c *Context) Faults(r fault.Rules) (*Faults, error) {
	const what = "faults"
	if c.limits.Minor < minorFaults {
		return nil, wrap(what, control.Errorf(control.CodeUnsupported, "the engine's protocol is 2.%d; 2.%d is needed", c.limits.Minor, minorFaults))
	}
	if err := r.Check(); err != nil {
		return nil, wrap(what, err)
	}
	text, err := json.Marshal(&r)
	if err != nil {
		return nil, wrap(what, err)
	}
	if len(text) > fault.MostText {
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "rules of %d bytes; at most %d are possible", len(text), fault.MostText))
	}
	c.faulting.Lock()
	defer c.faulting.Unlock()
	old := c.faults
	if old != nil {
		if err := old.count(c.client); err != nil { // its last counts
			return nil, wrap(what, err)
		}
	}
	for at := 0; at < len(text); {
		piece := text[at:min(at+control.MaxFaultsPiece, len(text))]
		m := &control.Faults{Total: uint32(len(text)), At: uint32(at), Text: string(piece)}
		if _, err := c.call(what, control.OpSetFaults, m, &control.Empty{}); err != nil {
			return nil, err
		}
		at += len(piece)
	}
	if old != nil {
		old.ended = true
	}
	c.faults = &faultState{acted: make([]uint64, len(r.Rules))}
	return &Faults{c, c.faults}, nil
}

// minorFaults is the minor version of the protocol that has OpSetFaults.
const minorFaults = 6

// Counts says how often each rule has acted, in the order of the rules. After Close, it returns the last
// counts.
func (f *Faults) Counts() ([]uint64, error) {
	f.c.faulting.Lock()
	defer f.c.faulting.Unlock()
	if err := f.count(f.c.client); err != nil {
		return nil, err
	}
	return append([]uint64(nil), f.acted...), nil
}

// count asks how often the rules have acted, if they have not ended. c.faulting is held.
func (f *faultState) count(c *client) error {
	for i := range f.acted {
		var m control.FaultCount
		if f.ended {
			return nil
		}
		what := fmt.Sprintf("faults: rule %d", i+1)
		_, err := c.call(what, control.OpQueryFault, &control.FaultRule{Rule: uint32(i)}, &m)
		if err != nil {
			return err
		}
		f.acted[i] = m.Acted
	}
	return nil
}

// Close ends the rules. It does nothing if they have ended already: by Close of this or of the context, or
// because others took their place.
func (f *Faults) Close() error {
	f.c.faulting.Lock()
	defer f.c.faulting.Unlock()
	if f.ended || f.c.closed.Load() {
		f.ended = true
		return nil
	}
	err := f.count(f.c.client)
	if err == nil {
		_, err = f.c.call("faults", control.OpSetFaults, &control.Faults{}, &control.Empty{})
	}
	f.ended = true
	return err
}
