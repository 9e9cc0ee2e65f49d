package pool

import (
	"context"
	"time"

	"github.com/nicless/nicless/internal/shm"
)

// An alarm ends the pause between two looks. The node waits in the kernel, not for a timer of Go: for such a
// timer several threads of the Go runtime wake, one of which looks again and again until the timer has run.
// In a process that does nothing else that is a good part of what the looks cost.
type alarm struct {
	signal chan struct{}
	word   *shm.BE32 // another number after each ring
}

func newAlarm() *alarm {
	return &alarm{signal: make(chan struct{}, 1), word: shm.BE32At(make([]byte, 8), 0)}
}

// ring ends the pause, or the next one.
//
// Publish: word. Observed by alarm.wait.
func (a *alarm) ring() {
	select {
	case a.signal <- struct{}{}:
		a.word.Publish(a.word.Observe() + 1)
		_ = a.word.Wake()
	default: // it has rung
	}
}

// rung reports whether the alarm has rung, and takes that back.
func (a *alarm) rung() bool {
	select {
	case <-a.signal:
		return true
	default:
		return false
	}
}

// wait waits for the time d, until the alarm rings or ctx ends. The end of ctx rings the alarm.
//
// Observe: word, published by alarm.ring.
func (a *alarm) wait(ctx context.Context, d time.Duration) {
	last := a.word.Observe()
	if a.rung() || ctx.Err() != nil {
		return
	}
	if a.word.Sleep(last, d) != nil { // a kernel without futexes
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-a.signal:
			return
		}
	}
	a.rung()
}
