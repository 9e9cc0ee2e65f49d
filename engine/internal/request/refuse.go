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

// setFaultList replaces the rules that the device obeys.
func setFaultList(e Device, list []*loop.Faults) {
	e.Faults = list
	e.Refuses.Store(slices.ContainsFunc(list, func(r *loop.Faults) bool {
		rules := r.Rules.Rules()
		return slices.ContainsFunc(rules, func(r fault.Rule) bool { return r.Refuse != nil })
	}))
}

// refused returns the refusal of a request by a rule, or nil. While no rule refuses anything, it only loads a
// word.
func (c faulting) refused(op control.Op) error {
	if !c.Device.Refuses.Load() || op == control.OpSetFaults || op == control.OpQueryFault {
		return nil
	}
	return c.findRefusal(op)
}

// findRefusal is refused while rules can refuse requests.
func (c faulting) findRefusal(op control.Op) (err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.Device.DoWith(mailbox.NoWork, func() {
		c.findRules()
		now := c.Device.Loops[0].Hooks.Hold(clock.Now())
		var hit fault.Hit
		acts := false
		for _, k := range c.calls {
			f := fault.Facts{Call: op.String(), Since: k.rules.Age(now)}
			if h, ok := k.Next(&f); ok && !acts {
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

// findRules brings the counters up to date with the rules that the device obeys. Counts of rules that stay
// are kept.
func (c faulting) findRules() {
	old := c.calls
	c.calls = nil
	for _, r := range c.Device.Faults {
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
}
