package niclesstest

import (
	"fmt"
	"slices"

	"github.com/nicless/nicless"
)

// Expect says that the test causes explanations with these codes, such as "key-range": they do not fail the
// test. At the end of the test, a code that has not come fails it. docs/EXPLANATIONS.md lists the codes.
func (d *Device) Expect(codes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range codes {
		d.expected[c] = d.has(c)
	}
}

// Allow is Expect for codes that need not come.
func (d *Device) Allow(codes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range codes {
		d.allowed[c] = true
	}
}

// Explanations returns what the device has explained so far, in the order in which it came. The explanation
// of a completion that was polled may come a moment later. The error of the completion has its text, too
// (nicless.FaultError).
func (d *Device) Explanations() []nicless.Explanation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.explanations)
}

// has reports whether an explanation with this code has come.
func (d *Device) has(code string) bool {
	return slices.ContainsFunc(d.explanations, func(x nicless.Explanation) bool { return x.Code == code })
}

// explained is the handler of explanations of a client.
func (d *Device) explained(g *guest, x nicless.Explanation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return // a test that is over must not be logged to
	}
	d.explanations = append(d.explanations, x)
	if _, ok := d.expected[x.Code]; ok {
		d.expected[x.Code] = true
	}
	d.t.Logf("niclesstest: %s: %v", d.where(g, x), x)
}

// where returns the name of the queue that an explanation is about.
func (d *Device) where(g *guest, x nicless.Explanation) string {
	for _, e := range d.pairs {
		number := e.QP.QPN()
		if x.Of == "cqe" {
			number = e.CQ.CQN()
		}
		if x.Number == number {
			return fmt.Sprintf("%s of %s", e, g.name)
		}
	}
	return g.name
}

// surprises returns the explanations that were not expected, and the codes that have not come.
func (d *Device) surprises() (unexpected, missing []string) {
	for _, x := range d.explanations {
		if _, ok := d.expected[x.Code]; !ok && !d.allowed[x.Code] {
			unexpected = append(unexpected, x.String())
		}
	}
	for c, came := range d.expected {
		if !came {
			missing = append(missing, c)
		}
	}
	slices.Sort(missing)
	return unexpected, missing
}
