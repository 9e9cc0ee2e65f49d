//go:build linux && (amd64 || arm64)

package request

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
)

// A callCounter counts the requests of a client for rules that can refuse them.
type callCounter struct {
	rules *loop.Faults
	*fault.Counter
}

// setFaultList replaces the rules that the device obeys. It is called while no other rules can be set.
func setFaultList(e Device, list []*loop.Faults) {
	e.Faults = list
	var can []*loop.Faults
	for _, r := range list {
		rules := r.Rules.Rules()
		if slices.ContainsFunc(rules, func(r fault.Rule) bool { return r.Refuse != nil }) {
			can = append(can, r)
		}
	}
	old := e.Refuses.Load()
	switch {
	case old != nil && slices.Equal(old.Faults, can):
	case can == nil:
		e.Refuses.Store(nil)
	default:
		e.RefusalSerial++
		e.Refuses.Store(&loop.Refusals{Serial: e.RefusalSerial, Faults: can})
	}
}

// refused returns the refusal of a request by a rule, or nil. A client for which there are no rules that
// refuse anything only loads a word or two: rules of others cost it nothing, and the device's thread neither.
func (c faulting) refused(op control.Op) error {
	r := c.Device.Refuses.Load()
	if r == nil || c.spared.Load() == r.Serial || op == control.OpSetFaults || op == control.OpQueryFault {
		return nil
	}
	return c.findRefusal(op)
}

// findRefusal is refused while rules for this client can refuse requests, or it is not known whether any are.
func (c faulting) findRefusal(op control.Op) (err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.findRules()
	if len(c.calls) == 0 {
		return nil
	}
	c.Device.DoWith(mailbox.NoWork, func() {
		now := c.Device.Loops[0].Hooks.Hold(clock.Now())
		var hit fault.Hit
		acts := false
		for _, k := range c.calls {
			f := fault.Facts{Call: op.String(), Since: k.rules.Age(now)}
			if h, ok := k.Next(&f, acts); ok {
				hit, acts = h, true
			}
		}
		if !acts {
			return
		}
		code := control.CodeErrno + control.Code(hit.Rule.Refuse.Number())
		err = control.Errorf(code, "%v: injected by rule %v", op, hit.Rule)
		c.Loop().ExplainSubject(report.Subject{Client: c.Client.Client}, codes.FaultInjected,
			"injected by rule %v: a request of client %d, pid %d", []any{hit.Rule, c.Number, c.Hosted.PID})
	})
	return err
}

// findRules brings the counters up to date with the rules that can refuse requests. Counts of rules that stay
// are kept.
func (c faulting) findRules() {
	old := c.calls
	c.calls = nil
	now := c.Device.Refuses.Load()
	if now == nil {
		return
	}
	for _, r := range now.Faults {
		if i := slices.IndexFunc(old, func(k callCounter) bool { return k.rules == r }); i >= 0 {
			c.calls = append(c.calls, old[i])
			continue
		}
		if r.Owner != nil && r.Owner != c.Client.Client && !maySee(r.Owner, c.Client.Client) {
			continue
		}
		if k := r.Counter(fault.OnCall, sourceOfClient(c.Client.Client)); k != nil {
			c.calls = append(c.calls, callCounter{r, k})
		}
	}
	if c.calls == nil {
		c.spared.Store(now.Serial)
	}
}
