//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/verdict"
)

// do does a step of the plan.
func (w *world) do(s *Step) error {
	q := w.ends[s.QP]
	switch s.Do {
	case Post:
		return w.post(q, s.Work, s.N)
	case Receive:
		w.receive(q, s.N, s.Size)
	case Poll:
		if q.usable() {
			w.poll(q, s.N)
		}
	case Run:
		for range s.N {
			w.e.Step()
		}
	case StepAll:
		w.stepAll()
	case Advance:
		w.advance(time.Duration(s.Time))
	case Rules:
		return w.setRules(s.Rules)
	case Fail:
		if q.usable() {
			q.life.broken = true
			return q.modify(control.StateERR)
		}
	case Reconnect:
		return w.reconnect(q)
	case Deregister:
		return w.deregister(q, s.N)
	case Kill:
		w.kill(w.clients[s.Client])
	}
	return nil
}

// stepAll steps the device until it has nothing to do.
func (w *world) stepAll() {
	w.sleeps++
	w.stepper.StepAll(w.sleeps)
}

// moments is how many times the device is stepped while time passes.
const moments = 4

// advance lets time pass.
func (w *world) advance(by time.Duration) {
	for i := range time.Duration(moments) {
		w.now += by*(i+1)/moments - by*i/moments
		w.hold()
		w.e.Step()
		w.tape.read(w)
	}
}

// setRules makes the device obey rules, nil: none.
func (w *world) setRules(r *fault.Rules) error {
	if r == nil {
		return w.operator.call(control.OpSetFaults, &control.Faults{}, &control.Empty{})
	}
	w.rules = append(w.rules, r.Rules...)
	for i := range r.Rules {
		x := &r.Rules[i]
		w.late = w.late || x.Order != ""
		if x.Deregister != "" {
			for _, q := range w.ends { // whose key it is depends on the work request
				q.keyOut = true
			}
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for at := 0; at < len(text); {
		piece := text[at:min(at+control.MaxFaultsPiece, len(text))]
		m := &control.Faults{Total: uint32(len(text)), At: uint32(at), Text: string(piece)}
		if err := w.operator.call(control.OpSetFaults, m, &control.Empty{}); err != nil {
			return fmt.Errorf("rules: %w", err)
		}
		at += len(piece)
	}
	return nil
}

// reconnect takes a link through RST.
func (w *world) reconnect(q *end) error {
	p := q.peer
	if !q.usable() || !p.usable() {
		return nil
	}
	for _, x := range []*end{q, p} {
		w.poll(x, all)
	}
	for _, x := range []*end{q, p} {
		if err := x.modify(control.StateRST); err != nil {
			return err
		}
		w.poll(x, all) // what came meanwhile
	}
	for _, x := range []*end{q, p} {
		w.checkErrors(x)
		w.abandon(x)
		w.received(x)
		clear(x.record)
		x.clearRegister()
		x.sent = 0
		if r := x.receives; !r.shared {
			r.posted, r.next = 0, 0
		}
	}
	for _, x := range []*end{q, p} {
		if r := x.receives; !r.shared {
			for index := range r.list {
				w.dropReceive(x, index)
			}
			clear(r.list)
			r.stains = nil
		}
	}
	return w.connect(q, p)
}

// abandon takes over what work requests have done that will not complete any more.
func (w *world) abandon(q *end) {
	w.unsure(q.work, len(q.work))
	q.work = nil
}

// all is more completions than a queue has.
const all = 1 << 30

// dropReceive takes over what is in a receive that will not complete any more.
func (w *world) dropReceive(q *end, index uint16) {
	r := q.receives
	l := q.life.peer
	var could []change
	for _, m := range l.messages[l.matched:] {
		could = append(could, m.into(r, index))
	}
	w.adopt(q, &r.area, r.slot(index), messageSize, could)
}

// received checks that all messages that q's peer knows to have arrived have come to q.
func (w *world) received(q *end) {
	l := q.life
	if q.link.reliable() && !q.client.gone && l.arrived < l.peer.done {
		w.blame(verdict.Lost, q, fmt.Sprintf("%s, which its peer has sent", count(l.peer.done, "message")),
			"%s in receives", count(l.arrived, "message"))
	}
}

// deregister ends a key of q: that of its memory, or, if which is 1, that of its receives.
func (w *world) deregister(q *end, which int) error {
	if !q.usable() {
		return nil
	}
	a, out := &q.area, &q.keyOut
	if which == 1 {
		a, out = &q.receives.area, &q.receives.keyOut
	}
	gone := *out
	*out = true
	err := q.client.call(control.OpDeregMR, &control.Key{Key: a.key}, &control.Empty{})
	if err != nil && !gone {
		return err
	}
	return nil
}

// kill closes a client.
func (w *world) kill(c *client) {
	if c.gone {
		return
	}
	c.gone = true
	_ = c.Close() // errors are about memory that the device could not give back
	c.last = bytes.Clone(c.mem)
	for _, q := range w.ends {
		if q.client == c {
			q.life.broken = true
			w.abandon(q)
		}
	}
}
