package pool

import (
	"context"
	"time"
)

// A clock counts the time in which this node itself ran. Silence of others is measured with it: a host that
// gives no processor to anybody, or a debugger that stops both engines, makes every heartbeat stand still,
// and says nothing about the node whose heartbeat it is. The zero value has not begun.
type clock struct {
	last time.Time
	ran  time.Duration // time in which this node ran; of a gap at most twice the pause counts

	pause time.Duration // which the node makes between two looks; 0: one tick
}

// mostGap is how much of the time between two looks counts: two ticks, or two pauses of a slow node
// (pace.go). A node that looks as often as it should has gaps of one tick and what its loop takes. On a host
// so busy that each look comes five ticks after the one before, a death is found after 2.5 times
// Config.Dead.
const mostGap = 2 * tick

// pass lets so much time of this node's own run pass.
func pass(ctx context.Context, t timer, d time.Duration) error {
	for c := (clock{}); c.look(t.Now()) < d; {
		if err := t.Sleep(ctx, tick); err != nil {
			return err
		}
	}
	return nil
}

// look notes that this node runs now, and returns the time in which it ran. It is called at each look at
// other nodes, by one goroutine. A step of the clock to an earlier time counts as nothing.
func (c *clock) look(now time.Time) time.Duration {
	if !c.last.IsZero() {
		c.ran += min(max(now.Sub(c.last), 0), max(mostGap, 2*c.pause))
	}
	c.last = now
	return c.ran
}
