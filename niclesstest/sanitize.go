package niclesstest

import (
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/sanitize"
)

// Sanitize fails the test for each mistake that the sanitizer finds in what the test does by a context, and
// prints both accesses with their stacks: see nicless.Context.Sanitize. It is for contexts of nicless.Open
// and nicless.Dial, before they make objects; a Device has a method of the same name. The sanitizer ends when
// the context is closed, or else at the end of the test, after what the test has given to Cleanup later.
func Sanitize(t testing.TB, c *nicless.Context) *nicless.Sanitizer {
	t.Helper()
	s := sanitizes(t, c)
	t.Cleanup(func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Errorf("niclesstest: %v", err)
		}
	})
	return s
}

// Sanitize fails the test for each mistake that the sanitizer finds in what the clients of the device do,
// also at the end of the test, and prints both accesses with their stacks: see nicless.Context.Sanitize. Call
// it before objects are made. Each work request then takes 200 microseconds longer on the device clock. With
// the clock Held, it waits for Advance, and the device finds it with the first Advance: a change before that
// looks like one before the post. In a bubble, the sanitizer looks for events from time to time, so that time
// never stops: a test that waits for something that never comes then waits for ever.
func (d *Device) Sanitize() *nicless.Sanitizer {
	d.t.Helper()
	g := d.attach() // ends after the clients of the test
	d.mu.Lock()
	d.sanitizers = append(d.sanitizers, g)
	d.mu.Unlock()
	s := sanitizes(d.t, g.ctx)
	d.attaching.Lock()
	defer d.attaching.Unlock()
	d.attached++ // the sanitizer is a client, too
	return s
}

func sanitizes(t testing.TB, c *nicless.Context) *nicless.Sanitizer {
	t.Helper()
	s, err := c.Sanitize(nicless.SanitizerConfig{Report: func(r *sanitize.Report) {
		t.Errorf("niclesstest: the sanitizer has found a mistake:\n%s", r)
	}})
	if err != nil {
		t.Fatalf("niclesstest: %v", err)
	}
	return s
}
