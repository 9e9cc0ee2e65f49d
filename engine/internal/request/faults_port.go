//go:build linux && (amd64 || arm64)

package request

import (
	"log/slog"
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// Rules of faults about ports act at a time after they were set. They are in the plan of the device, so the
// device's clock decides, and a test that holds it decides when.

// MayFault returns why an owner may not set rules, or nil. A port is one of all users, so rules about ports
// are for those who may watch all.
func (d Device) MayFault(set *fault.Set, owner *object.Client) error {
	if owner == nil || seesAll(owner) {
		return nil
	}
	for i := range set.Rules() {
		if r := &set.Rules()[i]; r.On() == fault.OnTime {
			return control.Errorf(control.CodeDenied, "rule %v: a port serves all users; root and the engine's own user may set such rules", r)
		}
	}
	return nil
}

// plan plans what rules do to ports. Rules whose owner may not do that do nothing.
func (d ports) plan(r *loop.Faults) {
	if d.MayFault(r.Set, r.Owner) != nil {
		return
	}
	for i := range r.Set.Rules() {
		if rule := &r.Set.Rules()[i]; rule.On() == fault.OnTime {
			at := clock.After(r.Since, time.Duration(rule.Match.After))
			d.Do(func() {
				if at == r.Since {
					d.act(r, i)
				} else {
					d.Plan.Add(at, r, func() { d.act(r, i) })
				}
			})
		}
	}
}

// act does what a rule says to the ports that it matches.
func (d ports) act(r *loop.Faults, i int) {
	rule := &r.Set.Rules()[i]
	r.Set.Act(i)
	d.Journal.Log(slog.LevelInfo, "injected by rule "+rule.String(), "code", codes.FaultInjected.String())
	for n := range uint8(nic.MaxPorts) {
		if m := rule.Match.Device; m != "" && m != d.DeviceNames().Of(n) {
			continue
		}
		if rule.GID != "" {
			d.changeGID(n)
			continue
		}
		if event, ok := subnetEvents[rule.Subnet]; ok {
			d.notifyPort(n, event)
			continue
		}
		d.holdDown(r, n, 1)
		if rule.Port.Down != fault.Forever {
			up := clock.After(d.Loops[0].Hooks.Hold(clock.Now()), time.Duration(rule.Port.Down))
			d.Plan.Add(up, r, func() { d.holdDown(r, n, -1) })
		}
	}
}

// holdDown changes the number of outages that rules have made of a port. It is up when there are none.
func (d ports) holdDown(r *loop.Faults, n uint8, more int) {
	r.Down[n] += more
	d.Down[n] += more
	d.setPort(n, d.Down[n] == 0)
}

// end takes the rules about ports back, between two steps. A port that they hold down comes up; a GID
// stays as it is.
func (d ports) end(r *loop.Faults) {
	d.Plan.Drop(r)
	for n, held := range r.Down {
		if held > 0 {
			d.holdDown(r, uint8(n), -held)
		}
	}
}
