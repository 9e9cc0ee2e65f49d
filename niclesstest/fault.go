package niclesstest

import (
	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/fault/rulefile"
)

// Fault makes the device obey rules of faults: work requests fail, wait or get lost as the rules say, for all
// clients of the device. docs/FAULTS.md describes the rules. They last until the end of the test, or until
// the result is closed. Rules of several calls act side by side. Explanations with the code fault-injected do
// not fail the test; those of the consequences do. Rules that are wrong fail it.
//
// The result says how often each rule has acted.
func (d *Device) Fault(r fault.Rules) *nicless.Faults {
	d.t.Helper()
	d.Allow("fault-injected")
	g := d.attach() // each set of rules has a client: a second set of one client would replace the first
	d.mu.Lock()
	d.faulters = append(d.faulters, g)
	d.mu.Unlock()
	f, err := g.ctx.Faults(r)
	if err != nil {
		d.t.Fatalf("niclesstest: %v", err)
	}
	return f
}

// FaultText is Fault for rules as files have them, in YAML:
//
//	d.FaultText(`rules: [{match: {opcode: RDMA_WRITE, nth: 3}, complete: {syndrome: remote-access}}]`)
func (d *Device) FaultText(yaml string) *nicless.Faults {
	d.t.Helper()
	r, err := rulefile.Parse("rules", []byte(yaml))
	if err != nil {
		d.t.Fatalf("niclesstest: %v", err)
	}
	return d.Fault(*r)
}
