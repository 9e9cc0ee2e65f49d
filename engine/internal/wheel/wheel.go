//go:build linux && (amd64 || arm64)

// Package wheel has the timers of many things, most of which are stopped before they run out.
//
// A Wheel is a ring of buckets, one for each tick. To start or stop a timer costs a few stores, however many
// there are. The owner of the wheel looks into the bucket of each tick that has passed
// (transport.ExpireTimers), and finds there the timers that have run out, those that were stopped, and those
// whose deadline has moved.
//
// A Wheel and its timers are used by one thread.
package wheel

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// A Timer is the timer of what it is Of. It is in a bucket of a wheel as long as Linked is true.
type Timer[T any] struct {
	Of         T
	prev, Next *Timer[T]
	Deadline   uint64 // device clock at which the timer runs out; 0: it does not run
	placed     uint64 // the deadline for which the bucket was chosen
	Bucket     uint32
	Linked     bool
}

// A Wheel has timers.
type Wheel[T any] struct {
	Buckets [Buckets]*Timer[T]
	Tick    uint64 // number of the tick up to which all timers have run out
	Due     uint64 // device clock at which the next tick begins; 0: not known
	Armed   int    // number of timers in buckets
	Cycles  uint64 // device clock cycles of a tick
}

const (
	Buckets  = 1 << 10
	tickTime = 16 * time.Microsecond
)

// Running reports whether the timer has a deadline.
func (t *Timer[T]) Running() bool { return t.Deadline != 0 }

// Stop stops a timer. The timer leaves its bucket when the wheel comes there.
func (t *Timer[T]) Stop() { t.Deadline = 0 }

// Arm sets the deadline of a timer.
func (w *Wheel[T]) Arm(t *Timer[T], now, deadline uint64) {
	t.Deadline = max(deadline, 1)
	if t.Linked {
		if t.Deadline < t.placed {
			w.move(t, w.After(t.Deadline))
		}
		return
	}
	if w.Armed == 0 {
		w.Tick, w.Due = now/w.PerTick(), 0
	}
	w.Link(t, w.After(t.Deadline))
}

// After returns the number of the first tick that begins after a deadline.
func (w *Wheel[T]) After(deadline uint64) uint64 { return deadline/w.PerTick() + 1 }

// move puts a timer into the bucket of the tick at, if that tick comes before the tick of its present bucket.
func (w *Wheel[T]) move(t *Timer[T], at uint64) {
	next := w.Tick + 1 // the tick whose bucket is looked at next
	present := next + (uint64(t.Bucket)-next)%Buckets
	if at < present {
		w.Unlink(t)
		w.Link(t, at)
	}
}

// PerTick returns the length of a tick in cycles.
func (w *Wheel[T]) PerTick() uint64 {
	if w.Cycles == 0 {
		w.Cycles = max(clock.Cycles(tickTime), 1)
	}
	return w.Cycles
}

// Link puts a timer into the bucket of the tick at, or of the next tick if at has passed.
func (w *Wheel[T]) Link(t *Timer[T], at uint64) {
	t.Bucket, t.placed = uint32(max(at, w.Tick+1)%Buckets), t.Deadline
	head := &w.Buckets[t.Bucket]
	t.Next = *head
	if t.Next != nil {
		t.Next.prev = t
	}
	*head, t.prev, t.Linked = t, nil, true
	w.Armed++
}

// Unlink takes a timer out of its bucket.
func (w *Wheel[T]) Unlink(t *Timer[T]) {
	if t.prev != nil {
		t.prev.Next = t.Next
	} else {
		w.Buckets[t.Bucket] = t.Next
	}
	if t.Next != nil {
		t.Next.prev = t.prev
	}
	t.prev, t.Next, t.Linked = nil, nil, false
	w.Armed--
}

// Disarm takes a timer off the wheel.
func (w *Wheel[T]) Disarm(t *Timer[T]) {
	t.Deadline = 0
	if t.Linked {
		w.Unlink(t)
	}
}
