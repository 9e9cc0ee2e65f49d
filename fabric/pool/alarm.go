package pool

import (
	"context"
	"time"
)

// An alarm ends the pause between two looks. The node waits for a timer of the kernel (systemAlarm), and the
// Go runtime waits for that in its poller, as for a socket: one thread wakes. In a process that does nothing
// else the other ways cost more than the look. Before a timer of Go runs, the runtime's sysmon thread wakes
// too. During a wait in a system call it wakes some 60 times, unless the wait gives up the P (package
// blocking).
type alarm struct {
	signal chan struct{}
	system *systemAlarm // nil: there is none, and the node waits for a timer of Go
}

func newAlarm() *alarm { return &alarm{signal: make(chan struct{}, 1)} }

// ring ends the pause, or the next one. Safe for concurrent use, also after close.
func (a *alarm) ring() {
	select {
	case a.signal <- struct{}{}:
		if a.system != nil {
			a.system.ring()
		}
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

// wait waits for the time d, until the alarm rings or ctx ends. The end of ctx rings the alarm. It may return
// too early.
func (a *alarm) wait(ctx context.Context, d time.Duration) {
	over := func() bool { return a.rung() || ctx.Err() != nil }
	if a.system != nil && a.system.wait(d, over) == nil {
		a.rung()
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-a.signal:
	}
}

// close is called when nobody waits any more.
func (a *alarm) close() {
	if a.system != nil {
		a.system.close()
	}
}
