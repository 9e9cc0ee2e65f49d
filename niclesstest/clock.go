package niclesstest

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/inside"
)

// A Clock says what makes the device clock advance.
type Clock int

const (
	// Real is the time of the machine. A thread runs the device.
	Real = Clock(inside.Real)

	// Held stands still until Device.Advance. The device does at once what was posted, and no timer
	// runs out by itself.
	Held = Clock(inside.Held)

	// Bubble is the time of the testing/synctest bubble in which NewWith is called. All goroutines that
	// use the device must be of that bubble.
	Bubble = Clock(inside.Bubble)
)

// The rate of the counter is measured once in a process. In a bubble it would be measured against the
// bubble's time, which stands still.
func init() { clock.Hz() }

// inBubble reports whether the caller is in a bubble of testing/synctest, as far as its time shows that: it
// begins at midnight UTC of 2000-01-01. A test that lets more than a day pass before New gets no help.
func inBubble() bool {
	since := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	return since >= 0 && since < 24*time.Hour
}

// Advance lets some time pass on the clock of the device. Everything that is due on the way happens at its
// time: a timer of one second that is set again when it runs out has run out ten times after ten seconds.
// When Advance returns, the device has nothing left to do at the new time. In a bubble Advance is a
// time.Sleep. With Real it fails the test.
func (d *Device) Advance(by time.Duration) {
	d.t.Helper()
	if d.cfg.Clock == Real {
		d.t.Fatalf("niclesstest: Advance(%v) of a device with the clock Real; Held and Bubble can be advanced", by)
	}
	if by < 0 {
		d.t.Fatalf("niclesstest: Advance(%v); a clock does not go back", by)
	}
	d.engine.Advance(by)
}
