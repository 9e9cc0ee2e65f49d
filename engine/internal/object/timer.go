//go:build linux && (amd64 || arm64)

package object

import "github.com/nicless/nicless/internal/clock"

// Running reports whether the timer has a deadline.
func (t *Timer) Running() bool { return t.Deadline != 0 }

// Stop stops a timer. The timer leaves its bucket when the wheel comes there.
func (t *Timer) Stop() { t.Deadline = 0 }

// Arm sets the deadline of a timer.
func (w *Wheel) Arm(t *Timer, now, deadline uint64) {
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
func (w *Wheel) After(deadline uint64) uint64 { return deadline/w.PerTick() + 1 }

// move puts a timer into the bucket of the tick at, if that tick comes before the tick of its present bucket.
func (w *Wheel) move(t *Timer, at uint64) {
	next := w.Tick + 1 // the tick whose bucket is looked at next
	present := next + (uint64(t.Bucket)-next)%WheelBuckets
	if at < present {
		w.Unlink(t)
		w.Link(t, at)
	}
}

// PerTick returns the length of a tick in cycles.
func (w *Wheel) PerTick() uint64 {
	if w.Cycles == 0 {
		w.Cycles = max(clock.Cycles(tickTime), 1)
	}
	return w.Cycles
}

// Link puts a timer into the bucket of the tick at, or of the next tick if at has passed.
func (w *Wheel) Link(t *Timer, at uint64) {
	t.Bucket, t.placed = uint32(max(at, w.Tick+1)%WheelBuckets), t.Deadline
	head := &w.Buckets[t.Bucket]
	t.Next = *head
	if t.Next != nil {
		t.Next.prev = t
	}
	*head, t.prev, t.Linked = t, nil, true
	w.Armed++
}

// Unlink takes a timer out of its bucket.
func (w *Wheel) Unlink(t *Timer) {
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
func (w *Wheel) Disarm(t *Timer) {
	t.Deadline = 0
	if t.Linked {
		w.Unlink(t)
	}
}
