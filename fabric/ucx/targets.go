//go:build linux && (amd64 || arm64)

package ucx

import "time"

// A target is an address to which the carrier connects.
type target struct {
	to      string        // the address, as --link names it
	conn    uint32        // number of the newest connection to the target; 0: none
	peer    *peer         // the engine that has answered at the address last; nil: none
	why     string        // if conn is 0: why there is no connection
	since   time.Time     // if conn is 0: since when there has been no connection
	pause   time.Duration // how long to wait after the next attempt that fails
	pausing bool          // no attempt is under way
	again   chan struct{} // requests an attempt at once: the process is ready, or keys have to be renewed
}

// attemptNow requests an attempt at once: pursue ends the pause, if an attempt is needed.
func (t *target) attemptNow() {
	select {
	case t.again <- struct{}{}:
	default:
	}
}

// pursue connects to a target, and again when the connection is lost, until Close. Each call of connectTo
// is an attempt, and lasts as long as its connection. While keys are renewed, there are two: the old
// connection, and the attempt to make the next one.
func (c *Carrier) pursue(t *target) {
	defer c.loops.Done()
	type end struct {
		attempt int
		err     error
	}
	ended := make(chan end)
	newest, running := 0, 0 // number of the newest attempt, and how many attempts have not ended
	begin := func() {
		c.mu.Lock()
		t.pausing = false
		c.mu.Unlock()
		newest++
		running++
		attempt := newest
		go func() { ended <- end{attempt, c.connectTo(t)} }()
	}
	defer func() {
		for ; running > 0; running-- {
			<-ended
		}
	}()
	begin()
	var pause <-chan time.Time
	for {
		select {
		case e := <-ended:
			running--
			switch {
			case e.attempt != newest || c.closing(): // nothing follows from the end of an old connection
			case running > 0: // the connection whose keys were to be renewed is still there
				newest--
				c.notRenewed(t, e.err.Error())
			default:
				pause = time.After(c.noteFailure(t, e.err.Error()))
			}
		case <-pause:
			pause = nil
			begin()
		case <-t.again:
			if c.needsAttempt(t) {
				pause = nil
				begin()
			}
		case <-c.stop:
			return
		}
	}
}

// needsAttempt reports whether an attempt that was requested is needed: no attempt is under way, or the keys
// of the connection have to be renewed.
func (c *Carrier) needsAttempt(t *target) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.conns[t.conn]
	renews := k != nil && k.renewed
	return t.pausing || renews
}

// noteFailure notes that there is no connection to a target, and returns how long to wait before the next
// attempt.
func (c *Carrier) noteFailure(t *target, why string) (pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.why != why || t.conn != 0 {
		c.log.Warn("not connected; it is tried again", "peer", t.to, "why", why, "within", mostPause)
		t.why, t.since = why, time.Now()
	}
	t.conn, t.pausing = 0, true
	pause = t.pause
	t.pause = min(2*t.pause, mostPause)
	c.changed()
	return pause
}
