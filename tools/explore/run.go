//go:build linux && (amd64 || arm64)

package explore

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/trace"
)

// An Outcome is what a run has found.
type Outcome struct {
	Fault  *verdict.Fault // nil: none
	Seen   Counts
	Time   time.Duration // virtual
	Events []trace.Event // in order
}

// Execute does what a plan says, on a fresh device, and judges what the device does. An error says that the
// run could not be made at all. The plan has passed Check.
func Execute(p *Plan) (o *Outcome, err error) {
	w := &world{plan: p}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			o, err = w.panicked(v), nil
		}
	}()
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("explore: %w", err)
	}
	for i := range p.Steps {
		if err := w.do(&p.Steps[i]); err != nil {
			if c := (*control.Error)(nil); !errors.As(err, &c) {
				return nil, errors.Join(fmt.Errorf("explore: step %d: %w", i, err), w.close())
			}
			w.fault = verdict.New(verdict.Failed, "no refusal", "step %d (%s) is refused: %v", i, p.Steps[i].Do, err)
		}
		w.tape.read(w)
		w.untouched()
		if w.checked > mostChecked {
			return nil, errors.Join(fmt.Errorf("explore: step %d: to check this plan takes more than %d comparisons",
				i, uint64(mostChecked)), w.close())
		}
		if w.fault != nil {
			break
		}
	}
	if w.fault == nil {
		if err := w.finish(); err != nil {
			return nil, errors.Join(fmt.Errorf("explore: %w", err), w.close())
		}
	}
	w.tape.read(w)
	w.untouched()
	w.seen.Events = len(w.tape.events)
	if err := w.close(); err != nil {
		return nil, fmt.Errorf("explore: %w", err)
	}
	w.leaks()
	return &Outcome{w.fault, w.seen, w.now, w.tape.events}, nil
}

// Time at the end of a run. All timers of a queue pair run out within it: 8 tries of 67 ms (Link.Timeout),
// and 8 of 655 ms (min_rnr_timer 0).
const (
	pauses    = 40
	pauseTime = 250 * time.Millisecond
)

// finish ends the rules, lets time pass, and checks that everything ends.
func (w *world) finish() error {
	if err := w.setRules(nil); err != nil {
		return err
	}
	drops := slices.ContainsFunc(w.rules, func(r fault.Rule) bool { return r.Doorbell.Drop })
	w.drain(func(q *end) bool { return q.awaited() == nil })
	for _, q := range w.ends {
		if r := q.awaited(); r != nil && q.usable() && !drops {
			w.unanswered(q, r)
		}
	}
	if w.fault != nil {
		return nil
	}
	for _, q := range w.ends { // work requests that complete silently have ended when a later one completes
		if err := w.post(q, []Work{{Op: operations[len(operations)-1]}}, 0); err != nil {
			return err
		}
	}
	w.drain(func(q *end) bool { return len(q.work) == 0 })
	for _, q := range w.ends {
		if q.usable() && len(q.work) > 0 {
			w.unanswered(q, q.work[0])
		}
	}
	w.tape.read(w)
	return w.flush()
}

// awaited returns the first work request of q that must have a completion; nil if there is none.
func (q *end) awaited() *request {
	for _, r := range q.work {
		if !r.Silent {
			return r
		}
	}
	return nil
}

func (w *world) unanswered(q *end, r *request) {
	w.blame(verdict.NoAnswer, q, "a completion, because all timers have run out", "none for %s", r.name())
}

// drain lets time pass until done is true of all ends that can be used.
func (w *world) drain(done func(q *end) bool) {
	for range pauses {
		ready := true
		for range 4 { // messages take receives, which are posted again
			for _, q := range w.ends {
				if q.usable() {
					w.receive(q, slots, messageSize)
				}
			}
			w.stepAll()
			w.tape.read(w)
			for _, q := range w.ends {
				if q.usable() && w.fault == nil {
					w.poll(q, all)
				}
			}
		}
		for _, q := range w.ends {
			ready = ready && (!q.usable() || done(q))
		}
		if ready || w.fault != nil {
			return
		}
		w.advance(pauseTime)
	}
}

// failedFlush checks that an error of a work request has put its queue pair into ERR, where receives are
// flushed. That of UD goes to SQE, where they are not.
func (w *world) failedFlush() {
	for _, q := range w.ends {
		r := q.receives
		if !q.usable() || w.fault != nil || !q.link.reliable() || r.shared || len(q.life.failed) == 0 {
			continue
		}
		w.receive(q, slots, messageSize)
		w.stepAll()
		w.poll(q, all)
		if len(r.list) > 0 {
			w.blame(verdict.Lost, q, "WR_FLUSH_ERR for each receive after "+q.life.failed[0].name()+" has failed",
				"none for %s", count(len(r.list), "receive"))
		}
	}
}

// flush puts all queue pairs into error and checks that all receives complete.
func (w *world) flush() error {
	for _, q := range w.ends {
		if q.usable() {
			w.checkErrors(q)
			w.received(q)
		}
	}
	w.failedFlush()
	for _, q := range w.ends {
		if !q.usable() || w.fault != nil {
			continue
		}
		q.life.broken = true
		if err := q.modify(control.StateERR); err != nil {
			return err
		}
	}
	w.stepAll()
	for _, q := range w.ends {
		if !q.usable() || w.fault != nil {
			continue
		}
		w.poll(q, all)
		if r := q.receives; !r.shared && len(r.list) > 0 {
			w.blame(verdict.Lost, q, "WR_FLUSH_ERR for each receive of a queue pair in ERR", "none for %s",
				count(len(r.list), "receive"))
		}
	}
	return nil
}

// leaks checks that the device holds nothing for clients that are closed.
func (w *world) leaks() {
	if w.fault != nil {
		return
	}
	h := w.d.(nic.Probe).Held()
	if len(h.Clients) > 0 || h.Objects > 0 || h.Other || h.Cost != (nic.Cost{}) {
		w.fault = verdict.New(verdict.Leaked, "nothing, because all clients are closed", "%d clients, %d objects, %+v",
			len(h.Clients), h.Objects, h.Cost)
	}
}
