//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
)

// Each rule that fits a queue pair costs it 48 bytes and, for each WQE, some nanoseconds, whoever has set it.
// So with mostUserRules rules of a user, a queue pair takes about twice the memory that it is charged for,
// and the device's thread a microsecond more for a WQE. An order takes 200 bytes more for each client that
// has set one, and 20 KiB while a message is written in pieces; order.Room bounds windows of several WQEs.
// Root and the device's own user could hold the device up anyway: mostRules is for 16 tests that run at once
// on a shared engine.
const (
	mostUserRules = fault.MostRules
	mostRules     = 16 * fault.MostRules
)

// ruleCost is what a rule costs beside its text.
const ruleCost = 512

// clientFaults are the rules that a client has set, and those of which it has sent a part. Client.Mu guards
// them.
type clientFaults struct {
	rules *loop.Faults // nil: none
	paid  quota.Charge // for rules

	text  []byte // pieces so far
	total int    // bytes of all pieces; 0: none has come
}

// A faulting sets and ends the rules of a client.
type faulting struct{ *Client }

// setFaults serves OpSetFaults. Rules are parsed on the caller's goroutine.
func setFaults(client *Client, payload []byte) (control.Message, error) {
	c := faulting{client}
	var m control.Faults
	if err := control.Parse(control.OpSetFaults, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return nil, object.ErrClosed
	}
	if m.At == 0 {
		c.dropPieces()
	}
	if m.Total == 0 && m.At == 0 && m.Text == "" {
		c.endFaults()
		return &control.Empty{}, nil
	}
	if err := c.addPiece(&m); err != nil || len(c.faults.text) < c.faults.total {
		return &control.Empty{}, err
	}
	text := c.faults.text
	defer c.dropPieces()
	return &control.Empty{}, c.replaceFaults(text)
}

// addPiece adds a piece of rules to those before it.
func (c faulting) addPiece(m *control.Faults) error {
	f := &c.faults
	have, total := uint64(len(f.text)), uint64(m.Total)
	switch {
	case total > fault.MostText:
		return control.Errorf(control.CodeInvalid, "rules of %d bytes; at most %d are possible", total, fault.MostText)
	case uint64(m.At) != have || have != 0 && int(m.Total) != f.total:
		return control.Errorf(control.CodeInvalid, "piece of rules at %d of %d bytes; the next one is at %d of %d", m.At, total, have, f.total)
	case m.Text == "" || have+uint64(len(m.Text)) > total:
		return control.Errorf(control.CodeInvalid, "piece of %d bytes at %d of %d; at least 1 and at most %d are possible", len(m.Text), m.At, total, total-min(have, total))
	}
	if have == 0 {
		if err := c.Device.Ledger.Take(c.UID, quota.Charge{quota.Memory: int(m.Total)}); err != nil {
			return err
		}
		f.total, f.text = int(m.Total), make([]byte, 0, m.Total)
	}
	f.text = append(f.text, m.Text...)
	return nil
}

// dropPieces forgets the pieces.
func (c faulting) dropPieces() {
	f := &c.faults
	if f.total > 0 {
		c.Device.Ledger.Refund(c.UID, quota.Charge{quota.Memory: f.total})
	}
	f.text, f.total = nil, 0
}

// replaceFaults parses rules, and sets them in place of those that c has set before.
func (c faulting) replaceFaults(text []byte) error {
	rules, err := fault.Parse(text)
	if err != nil {
		return control.Errorf(control.CodeInvalid, "%v", err)
	}
	set, err := fault.NewSet(rules)
	if err != nil {
		return control.Errorf(control.CodeInvalid, "%v", err)
	}
	if err := c.Device.MayFault(set, c.Client.Client); err != nil {
		return err
	}
	pay := quota.Charge{quota.Memory: len(text) + ruleCost*len(rules.Rules)}
	if err := c.Device.Ledger.Take(c.UID, pay); err != nil {
		return err
	}
	may := func() error { return c.mayHaveRules(len(rules.Rules)) }
	r, err := c.Device.replaceFaults(c.faults.rules, set, c.Client.Client, may)
	if err != nil {
		c.Device.Ledger.Refund(c.UID, pay)
		return err
	}
	c.Device.Ledger.Refund(c.UID, c.faults.paid)
	c.faults.rules, c.faults.paid = r, pay
	return nil
}

// mayHaveRules refuses n rules of c in place of those that it has, if its user has too many. It is called
// while no rules can be added.
func (c faulting) mayHaveRules(n int) error {
	payer := c.Device.Ledger.Payer
	have, most := 0, mostUserRules
	if seesAll(c.Client.Client) {
		most = mostRules
	}
	for _, r := range c.Device.Faults {
		if r.Owner != nil && r != c.faults.rules && payer(r.Owner.UID) == payer(c.UID) {
			have += len(r.Rules.Rules())
		}
	}
	if have+n > most {
		return control.Errorf(control.CodeLimit, "%d rules of faults, beside %d of other clients of this user; a user may have %d", n, have, most)
	}
	return nil
}

// endFaults ends the rules of c, and forgets pieces.
func (c faulting) endFaults() {
	c.dropPieces()
	if c.faults.rules != nil {
		c.Device.EndFaults(c.faults.rules)
		c.Device.Ledger.Refund(c.UID, c.faults.paid)
		c.faults = clientFaults{}
	}
}

// queryFault serves OpQueryFault.
func queryFault(c *Client, m *control.FaultRule) (control.Message, error) {
	n := 0
	if c.faults.rules != nil {
		n = len(c.faults.rules.Rules.Rules())
	}
	if uint64(m.Rule) >= uint64(n) {
		return nil, control.Errorf(control.CodeNotFound, "rule %d of faults: this client has set %d", m.Rule, n)
	}
	return &control.FaultCount{Acted: c.faults.rules.Acted(int(m.Rule))}, nil
}
