package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Parse parses the JSON form of rules, at most MostText bytes, and checks them.
func Parse(b []byte) (*Rules, error) {
	if len(b) > MostText {
		return nil, fmt.Errorf("fault: rules of %d bytes; at most %d are possible", len(b), MostText)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	r := new(Rules)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("fault: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("fault: there is more text after the rules")
	}
	return r, r.Check()
}

// Check says what is wrong with rules: with all of them, joined. Each error names its rule.
func (r *Rules) Check() error {
	if len(r.Rules) == 0 || len(r.Rules) > MostRules {
		return fmt.Errorf("fault: %d rules; 1 to %d are possible", len(r.Rules), MostRules)
	}
	var all []error
	for i := range r.Rules {
		if err := r.Rules[i].check(); err != nil {
			all = append(all, fmt.Errorf("fault: rule %d%s: %w", i+1, r.Rules[i].quoted(), err))
		}
	}
	return errors.Join(all...)
}

// quoted returns the name of a rule for an error.
func (r *Rule) quoted() string {
	if r.Name == "" {
		return ""
	}
	return fmt.Sprintf(" (%.*q)", MostName, r.Name)
}

// Check says what is wrong with a rule alone: with all of it, joined.
func (r *Rule) Check() error { return r.check() }

// check says what is wrong with a rule.
func (r *Rule) check() error {
	var has []string
	for _, k := range kinds {
		if k.has(r) {
			has = append(has, k.name)
		}
	}
	switch {
	case len(has) == 0:
		return fmt.Errorf("has no action; one of these is needed: %s", strings.Join(Actions(), ", "))
	case len(has) > 1:
		return fmt.Errorf("has %d actions, %s; one is possible", len(has), strings.Join(has, " and "))
	case len(r.Name) > MostName:
		return fmt.Errorf("name of %d bytes; at most %d are possible", len(r.Name), MostName)
	}
	return errors.Join(r.Match.check(r.On()), r.checkAction(has[0]))
}

// checkAction says what is wrong with the values of the action.
func (r *Rule) checkAction(name string) error {
	switch {
	case r.Complete != nil && r.Complete.Syndrome == 0:
		return errors.New("complete: needs a syndrome, 1 to 255 or a name such as remote-access")
	case r.Complete != nil && r.Complete.Vendor != nil && *r.Complete.Vendor > 255:
		return fmt.Errorf("complete: vendor %d; 0 to 255 are possible", *r.Complete.Vendor)
	case r.Stall < 0 || r.Cut < 0:
		return fmt.Errorf("%s: %v; a time above 0, or forever, is needed", name, min(r.Stall, r.Cut))
	case r.RNR < 0:
		return fmt.Errorf("rnr: %d times; at least 1 is needed", r.RNR)
	case r.LoseRequest < All || r.LoseAnswer < All:
		return fmt.Errorf("%s: %d times; at least 1, or all, is needed", name, min(r.LoseRequest, r.LoseAnswer))
	case r.Flip != nil && r.Flip.Bit != nil && *r.Flip.Bit > 7:
		return fmt.Errorf("flip: bit %d; 0 to 7 are possible", *r.Flip.Bit)
	case r.MTU < 0 || r.MTU > 4096:
		return fmt.Errorf("mtu: %d bytes; 1 to 4096 are possible", r.MTU)
	case r.Packet != nil && (r.Packet.Do == "") == (r.Packet.Delay == 0):
		return errors.New("packet: needs lose, duplicate, corrupt, reorder or a delay")
	case r.Packet != nil && r.Packet.Delay != Forever && (r.Packet.Delay < 0 || r.Packet.Delay > MostDelay):
		return fmt.Errorf("packet: delay %v; a time above 0 and at most %v is possible, or forever", r.Packet.Delay, MostDelay)
	case r.Port != nil && r.Port.Down <= 0:
		return errors.New("port: needs down, a time above 0 or forever")
	case r.Refuse != nil:
		return r.Refuse.check()
	case r.Packet != nil:
		return oneOf("packet", r.Packet.Do, Lose, Duplicate, Corrupt, Reorder)
	}
	return errors.Join(
		oneOf("overrun", r.Overrun, Send, Receive),
		oneOf("unreadable", r.Unreadable, Send, Receive),
		oneOf("deregister", r.Deregister, Local, Remote),
		oneOf("gid", r.GID, ChangeGID),
		oneOf("subnet", r.Subnet, ChangeLID, ChangePKey, ChangeSM, Reregister),
		oneOf("order", r.Order, Weak, Weakest),
	)
}

// check says what is wrong with the fields of a match for an action on some events.
func (m *Match) check(on Event) error {
	work := on == OnWQE || on == OnPacket
	var all []error
	for _, f := range []struct {
		name      string
		set, fits bool
	}{
		{"opcode", m.Opcode != 0, work},
		{"size", m.Size != Range{}, work},
		{"key", m.Key != 0, on == OnWQE},
		{"index", m.Index != nil, on == OnWQE},
		{"nth", m.Nth != 0, on != OnQueue && on != OnTime},
		{"every", m.Every != 0, on != OnQueue && on != OnTime},
		{"times", m.Times != 0, on != OnQueue && on != OnTime},
		{"probability", m.Probability != 0, on != OnQueue && on != OnTime},
		{"qp", m.QP != 0, on != OnTime && on != OnCall},
		{"transport", m.Transport != 0, on != OnTime && on != OnCall},
		{"program", m.Program != "", on != OnTime},
		{"pid", m.PID != 0, on != OnTime},
		{"client", m.Client != 0, on != OnTime},
		{"until", m.Until != 0, on != OnQueue && on != OnTime},
	} {
		if f.set && !f.fits {
			all = append(all, fmt.Errorf("match: the action cannot be limited by %s", f.name))
		}
	}
	switch {
	case len(m.Program) > 15:
		all = append(all, fmt.Errorf("match: program %.63q; the kernel keeps at most 15 bytes of a name", m.Program))
	case m.PID < 0:
		all = append(all, fmt.Errorf("match: pid %d; a process has a number above 0", m.PID))
	case m.QP > 1<<24-1:
		all = append(all, fmt.Errorf("match: qp %#x; numbers have 24 bits", uint64(m.QP)))
	case m.Key > 1<<32-1:
		all = append(all, fmt.Errorf("match: key %#x; keys have 32 bits", uint64(m.Key)))
	case !(m.Probability >= 0 && m.Probability <= 1):
		all = append(all, fmt.Errorf("match: probability %v; 0 to 1 is possible", m.Probability))
	case m.Nth != 0 && m.Every != 0:
		all = append(all, errors.New("match: nth and every; one of them is possible"))
	case m.After == Forever || m.Until == Forever:
		all = append(all, errors.New("match: after and until are times, not forever; without until, the rule acts to the end"))
	case m.After < 0 || m.Until < 0 || (m.Until != 0 && m.Until <= m.After):
		all = append(all, fmt.Errorf("match: after %v until %v; until must be later", m.After, m.Until))
	}
	return errors.Join(all...)
}
