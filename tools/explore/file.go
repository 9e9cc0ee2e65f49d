//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/trace"
)

// A Record is a run in a trace: its plan, its verdict, and the events.
type Record struct {
	Plan   *Plan
	Fault  *verdict.Fault // nil: none
	Events []trace.Event
}

// document is the text of the events of kind trace.KindPlan.
type document struct {
	Plan  json.RawMessage `json:"plan"`
	Fault *verdict.Fault  `json:"fault,omitempty"`
}

// clockOf is the clock of a trace of virtual time: a tick is a nanosecond since the run began.
var clockOf = trace.Clock{Hz: uint64(time.Second)}

// Write writes a trace of a run. All traces of a plan are the same.
func (r *Record) Write(to io.Writer) error {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return err
	}
	text, err := json.Marshal(&document{plan, r.Fault})
	if err != nil {
		return err
	}
	w, err := trace.NewWriter(to, clockOf)
	if err != nil {
		return err
	}
	n := 0
	for piece := range slices.Chunk(text, trace.MaxData) {
		e := trace.Event{Kind: trace.KindPlan, Index: uint16(n), Value: uint64(len(text)), Data: piece}
		if err := w.Write(&e); err != nil {
			return err
		}
		n++
	}
	last := uint64(0)
	for i := range r.Events {
		last = r.Events[i].Time
		if err := w.Write(&r.Events[i]); err != nil {
			return err
		}
	}
	return w.Close(last, false)
}

// mostEvents bounds the memory that a trace takes: 8 times as many as a plan of the most steps makes that
// Draw would make.
const mostEvents = 1 << 20

// Read reads a trace of a run. It returns nil if the trace has no plan: then it was recorded by something
// else. The record and an error come together if the trace is whole, but not its plan.
func Read(from io.Reader) (*Record, error) {
	t, err := trace.NewReader(from)
	if err != nil {
		return nil, err
	}
	r := new(Record)
	var text []byte
	pieces, total := 0, uint64(0)
	for {
		var e trace.Event
		err := t.Next(&e)
		switch {
		case err == io.EOF && uint64(len(text)) < total:
			return nil, fmt.Errorf("explore: a plan of %d bytes has %d", total, len(text))
		case err == io.EOF:
			return r, r.parse(text)
		case err != nil && len(text) > 0:
			return nil, err
		case err != nil:
			return nil, nil // whoever reads it next says what is wrong
		case e.Kind == trace.KindPlan:
			if e.Value > MostText || len(text)+len(e.Data) > MostText {
				return nil, fmt.Errorf("explore: a plan of %d bytes; at most %d are possible", max(e.Value, uint64(len(text)+len(e.Data))), MostText)
			}
			switch {
			case pieces > 0 && e.Value != total:
				return nil, fmt.Errorf("explore: a plan of %d bytes has a piece of one of %d", total, e.Value)
			case int(e.Index) != pieces || len(r.Events) > 0:
				return nil, fmt.Errorf("explore: piece %d of the plan comes after %d pieces and %d events",
					e.Index, pieces, len(r.Events))
			}
			pieces++
			total = e.Value
			text = append(text, e.Data...)
			if uint64(len(text)) > total {
				return nil, fmt.Errorf("explore: a plan of %d bytes has %d", total, len(text))
			}
		case len(text) == 0:
			return nil, nil // a plan comes first
		case e.Kind != trace.KindEnd:
			if len(r.Events) >= mostEvents {
				return nil, fmt.Errorf("explore: more than %d events", mostEvents)
			}
			e.Data = bytes.Clone(e.Data)
			r.Events = append(r.Events, e)
		}
	}
}

func (r *Record) parse(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("explore: plan: %w", err)
	}
	plan, err := Parse(d.Plan)
	r.Plan, r.Fault = plan, d.Fault
	return err
}

// A Difference is the first one between a run and its repetition.
type Difference struct {
	Event              int // number in the trace, after the plan
	Recorded, Repeated string
}

func (d *Difference) String() string {
	return fmt.Sprintf("event %d: recorded %s, repeated %s", d.Event, d.Recorded, d.Repeated)
}

// Repeat executes the plan of a record again. It returns nil in place of a difference if all events and the
// verdict are the same.
func (r *Record) Repeat() (*Outcome, *Difference, error) {
	o, err := Execute(r.Plan)
	if err != nil {
		return nil, nil, err
	}
	return o, r.differs(o), nil
}

func (r *Record) differs(o *Outcome) *Difference {
	for i := range max(len(r.Events), len(o.Events)) {
		a, b := "nothing", "nothing"
		if i < len(r.Events) {
			a = show(&r.Events[i])
		}
		if i < len(o.Events) {
			b = show(&o.Events[i])
		}
		if a != b {
			return &Difference{i, a, b}
		}
	}
	if a, b := showFault(r.Fault), showFault(o.Fault); a != b {
		return &Difference{len(r.Events), a, b}
	}
	return nil
}

// show returns all of an event.
func show(e *trace.Event) string {
	return fmt.Sprintf("%v %d at %v: queue 0x%x, index %d, count %d, value 0x%x, %x", e.Kind, e.Number,
		time.Duration(e.Time), e.Queue, e.Index, e.Count, e.Value, e.Data)
}

func showFault(f *verdict.Fault) string {
	if f == nil {
		return "no fault"
	}
	return f.String()
}
