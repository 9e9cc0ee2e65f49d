//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// opcodes are the operations of a Work.
var opcodes = map[string]wqe.Opcode{}

// operations are the names of opcodes, in the order in which Draw draws them.
var operations []string

func init() {
	for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpSend, wqe.OpRDMARead, wqe.OpRDMAWriteImm,
		wqe.OpSendImm, wqe.OpAtomicFA, wqe.OpAtomicCS, wqe.OpNop} {
		opcodes[op.String()] = op
		operations = append(operations, op.String())
	}
}

// Parse returns the plan that text has in its JSON form, or says what is wrong with it.
func Parse(text []byte) (*Plan, error) {
	if len(text) > MostText {
		return nil, fmt.Errorf("explore: a plan of %d bytes; at most %d are possible", len(text), MostText)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	p := new(Plan)
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("explore: plan: %w", err)
	}
	if d.More() {
		return nil, fmt.Errorf("explore: plan: there is more after byte %d", d.InputOffset())
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("explore: plan: %w", err)
	}
	return p, nil
}

// within returns an error if a number is not in a range.
func within(what string, v, least, most int64) error {
	if v < least || v > most {
		return fmt.Errorf("%s %d; %d to %d are possible", what, v, least, most)
	}
	return nil
}

// Check says what is wrong with a plan, with the value and the limit.
func (p *Plan) Check() error {
	err := first(
		within("clients", int64(p.Clients), 1, MostClients),
		within("burst", int64(p.Burst), 0, 1<<16),
		within("links", int64(len(p.Links)), 1, MostLinks),
		within("steps", int64(len(p.Steps)), 0, MostSteps),
	)
	if err == nil && p.Slice != 0 {
		err = within("slice", int64(p.Slice), 64, 1<<30)
	}
	if err != nil {
		return err
	}
	ends := make([]int, p.Clients)
	for i := range p.Links {
		if err := p.Links[i].check(p); err != nil {
			return fmt.Errorf("link %d: %w", i, err)
		}
		for _, c := range p.Links[i].Ends {
			ends[c]++
		}
	}
	if err := within("ends of links at a client", int64(slices.Max(ends)), 0, mostEnds); err != nil {
		return err
	}
	all, count, posted := int64(0), 0, 0
	for i := range p.Steps {
		if err := p.Steps[i].check(p); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		all += p.Steps[i].Time
		count += p.Steps[i].N
		posted += len(p.Steps[i].Work)
	}
	err = first(within("time of all steps", all, 0, mostAll),
		within("n of all steps", int64(count), 0, mostSum),
		within("work requests of all steps", int64(posted), 0, mostPosted))
	if err != nil {
		return err
	}
	if t := p.Plant; t != nil && t.Rules != nil {
		if err := checkRules(t.Rules, append(slices.Clone(drawn), "flip")); err != nil {
			return fmt.Errorf("planted rules: %w", err)
		}
	}
	return nil
}

func first(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Link) check(p *Plan) error {
	if _, ok := transports[l.Transport]; !ok {
		return fmt.Errorf("transport %q; %s, %s and %s are possible", l.Transport, rc, uc, ud)
	}
	if l.Register && l.Transport == ud {
		return fmt.Errorf("a register on %s; %s and %s can have one", ud, rc, uc)
	}
	return first(
		within("client", int64(l.Ends[0]), 0, int64(p.Clients-1)),
		within("client", int64(l.Ends[1]), 0, int64(p.Clients-1)),
		within("rnr_retry", int64(l.RNRRetry), 0, 7),
		within("min_rnr_timer", int64(l.MinRNRTimer), 0, 31),
		within("retry_count", int64(l.RetryCount), 0, 7),
		within("timeout", int64(l.Timeout), 1, 14), // 67 ms, so that all retries fit into the end of a run
	)
}

// Names of transports.
const (
	rc = "RC"
	uc = "UC"
	ud = "UD"
)

// transports are the types of queue pairs, and how rules of faults name the transports.
var transports = map[string]struct {
	qp uint8
	on fault.Transport
}{
	rc: {control.QPTypeRC, fault.On(wqe.RC)},
	uc: {control.QPTypeUC, fault.On(wqe.UC)},
	ud: {control.QPTypeUD, fault.On(wqe.UD)},
}

// reliable reports whether messages are acknowledged.
func (l *Link) reliable() bool { return l.Transport == rc }

// grh is how many bytes come before a message in its receive.
func (l *Link) grh() int {
	if l.Transport == ud {
		return grhSize
	}
	return 0
}

// grhSize is the size of a global routing header.
const grhSize = 40

// has reports whether the transport has an operation.
func (l *Link) has(op wqe.Opcode) bool {
	switch l.Transport {
	case uc:
		return !op.Info().Reads
	case ud:
		return op == wqe.OpSend || op == wqe.OpSendImm || op == wqe.OpNop
	}
	return true
}

func (s *Step) check(p *Plan) error {
	err := first(
		within("qp", int64(s.QP), 0, int64(2*len(p.Links)-1)),
		within("n", int64(s.N), 0, mostCount),
		within("size", int64(s.Size), 0, messageSize),
		within("time", s.Time, 0, mostTime),
		within("client", int64(s.Client), 0, int64(p.Clients-1)),
		within("work requests", int64(len(s.Work)), 0, mostList),
	)
	if err != nil {
		return err
	}
	switch s.Do {
	case Post, Receive, Poll, Run, StepAll, Advance, Fail, Reconnect, Deregister, Kill:
	case Rules:
		if s.Rules != nil {
			return checkRules(s.Rules, drawn)
		}
	default:
		return fmt.Errorf("it does %q, which is no step", s.Do)
	}
	for i := range s.Work {
		if err := s.Work[i].check(); err != nil {
			return fmt.Errorf("work request %d: %w", i, err)
		}
	}
	return nil
}

func (w *Work) check() error {
	op, ok := opcodes[w.Op]
	if !ok {
		return fmt.Errorf("operation %q is not possible", w.Op)
	}
	room, most := int64(targetSize), int64(messageSize)
	switch {
	case op == wqe.OpRDMARead:
		room = readSize
	case op.Info().Atomic():
		room = wordCount * 8
		if w.N != 8 || w.At%8 != 0 {
			return fmt.Errorf("%d bytes at %d of an atomic; 8 at a multiple of 8 are possible", w.N, w.At)
		}
	case w.Inline:
		most = mostInline
	}
	return first(
		within("n", int64(w.N), 0, most),
		within("at", int64(w.At), 0, room-int64(w.N)),
		within("pieces", int64(w.Pieces), 0, mostPieces),
	)
}

// drawn are the actions of rules that a plan may have: those of which the checker knows what they excuse.
var drawn = []string{"complete", "stall", "doorbell", "rnr", "lose-request", "lose-answer", "deregister",
	"disconnect", "order"}

func checkRules(r *fault.Rules, possible []string) error {
	if err := r.Check(); err != nil {
		return err
	}
	for i := range r.Rules {
		if k := r.Rules[i].Kind(); !slices.Contains(possible, k) {
			return fmt.Errorf("rule %d has the action %s; possible are %v", i+1, k, possible)
		}
	}
	return nil
}
