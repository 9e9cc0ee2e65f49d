package niclesstest

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/trace/text"
)

// A Trace is a list of events, in the order in which they happened: all that were recorded when
// Device.Trace was called, or a part of them. It does not change.
type Trace struct {
	clock  trace.Clock
	all    []trace.Event // what was recorded from the beginning, because events are read with those before
	chosen []int         // indices of the events of this trace; nil: all
	part   bool          // chosen counts, even if it is nil
}

// Trace returns all events since New: all that clients of the device did, from doorbells to completions.
// Work that was completed before the call is among them. docs/TRACE.md says what events there are. If there
// are very many, older ones are missing, and an event of kind trace.KindLost says how many.
func (d *Device) Trace() *Trace {
	d.t.Helper()
	if d.watch == nil {
		d.t.Fatalf("niclesstest: Trace of a device with NoTrace")
	}
	d.engine.Sync()
	d.collect()
	d.recording.Lock()
	defer d.recording.Unlock()
	if d.unreadable != nil {
		d.t.Errorf("niclesstest: trace: %v", d.unreadable)
	}
	return &Trace{clock: d.clock, all: slices.Clip(d.recorded)}
}

// collect reads the events that were recorded since the last call.
func (d *Device) collect() {
	d.recording.Lock()
	defer d.recording.Unlock()
	var e trace.Event
	for d.unreadable == nil {
		ok, err := d.watch.Poll(&e)
		if err != nil {
			d.unreadable = err
		}
		if !ok || err != nil {
			return
		}
		e.Data = bytes.Clone(e.Data)
		d.recorded = append(d.recorded, e)
		if len(d.recorded) >= 2*d.mostEvents {
			d.recorded = dropOld(d.recorded, d.mostEvents)
		}
	}
}

// collectOften collects until ctx ends. The device writes at most some MB in the time between two looks.
func (d *Device) collectOften(ctx context.Context) {
	tick := time.NewTicker(collectPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.collect()
		}
	}
}

// collectPause is the time between two looks for events, as in package nicless: at a gigabyte a second, the
// device writes 2 MB in it, which is the usual ring.
const collectPause = 2 * time.Millisecond

// mostEvents is how many events are kept at least: those of some 30,000 work requests, in 30 MB.
const mostEvents = 1 << 17

// dropOld returns the last n events, and of those before all that say what exists, because later ones need
// them.
func dropOld(all []trace.Event, n int) []trace.Event {
	kept := make([]trace.Event, 0, 2*n)
	before := all[:len(all)-n]
	lost := uint64(0)
	for _, e := range before {
		switch e.Kind {
		case trace.KindClient, trace.KindClientGone, trace.KindQueue, trace.KindQueueGone, trace.KindKey,
			trace.KindLink:
			kept = append(kept, e)
		case trace.KindLost:
			lost += e.Value
		default:
			lost++
		}
	}
	kept = append(kept, trace.Event{Kind: trace.KindLost, Time: before[len(before)-1].Time, Value: lost})
	return append(kept, all[len(all)-n:]...)
}

// Events yields the events. Their data must not be changed.
func (t *Trace) Events() iter.Seq[*trace.Event] {
	return func(yield func(*trace.Event) bool) {
		for i := range t.all {
			if (!t.part || contains(t.chosen, i)) && !yield(&t.all[i]) {
				return
			}
		}
	}
}

func contains(sorted []int, i int) bool {
	_, ok := slices.BinarySearch(sorted, i)
	return ok
}

// Find returns the events for which f returns true.
func (t *Trace) Find(f func(*trace.Event) bool) *Trace {
	found := &Trace{clock: t.clock, all: t.all, part: true}
	for i := range t.all {
		if (!t.part || contains(t.chosen, i)) && f(&t.all[i]) {
			found.chosen = append(found.chosen, i)
		}
	}
	return found
}

// Kinds returns the events of these kinds, such as trace.KindCQE.
func (t *Trace) Kinds(kinds ...trace.Kind) *Trace {
	return t.Find(func(e *trace.Event) bool { return slices.Contains(kinds, e.Kind) })
}

// Of returns the events of a queue pair, with the completions of its work.
func (t *Trace) Of(q *nicless.QP) *Trace {
	return t.Find(func(e *trace.Event) bool {
		n, ok := objects.QueueOf(e)
		return ok && n == q.QPN()
	})
}

// Len returns the number of events.
func (t *Trace) Len() int {
	if t.part {
		return len(t.chosen)
	}
	return len(t.all)
}

// Clock says what the times of the events mean.
func (t *Trace) Clock() trace.Clock { return t.clock }

// String returns the events as text, as nicless trace prints them: see package trace/text. Some events have
// no line, and some have several.
func (t *Trace) String() string { return strings.Join(t.lines(), "") }

// lines returns the lines of the text. The printer reads all events, because it names what events before have
// described; only the lines of the chosen ones count.
func (t *Trace) lines() (list []string) {
	var line bytes.Buffer
	p := text.New(&line)
	for i := range t.all {
		line.Reset()
		_ = p.Event(&t.all[i], t.clock) // a Buffer returns no error
		if !t.part || contains(t.chosen, i) {
			list = append(list, slices.Collect(strings.Lines(line.String()))...)
		}
	}
	return list
}

// lastLines is how many lines of the trace are logged when a test has failed: a screen or two, with the
// last few work requests.
const lastLines = 60

// logTrace logs the end of the trace.
func (d *Device) logTrace() {
	d.t.Helper()
	lines := d.Trace().lines()
	first := max(0, len(lines)-lastLines)
	d.t.Logf("niclesstest: the last %d of %d lines of the trace:\n%s", len(lines)-first, len(lines),
		strings.Join(lines[first:], ""))
}
