//go:build linux && (amd64 || arm64)

package loop

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// Doorbells that rules of faults drop or delay. While a queue pair with such rules is visited, its send
// record is replaced by one that says what the device may see. In error and in SQE all announced WQEs are
// flushed.

// visitRung is visitAside for a queue pair whose doorbells rules have to do with.
func (sh *Loop) visitRung(q *object.QP) (done int) {
	b := q.Faults.Bell
	if q.Stall.Kind != object.NoStall {
		return sh.visitOwn(q) // which begins nothing
	}
	b.Holds = false
	if rule := b.Look(q.SQ.Record.Observe(), q.SQ.Done, sh.Now()); rule != nil {
		sh.ExplainQueue(q, codes.FaultInjected, "injected by rule %v", rule)
	}
	defer sh.replaceRecord(q, b.Seen())()
	done = sh.visitOwn(q)
	idle := done == 0 && q.Job == nil && q.Stall.Kind == object.NoStall && q.Attr.State == control.StateRTS &&
		sh.Pending(q) == 0
	if w := q.Wire; idle && b.Until != 0 && (w == nil || w.Out.First == w.Out.Last) {
		b.Holds = true
		sh.StallFor(q, object.Stall{Kind: object.Held, Since: sh.Now(), Deadline: b.Until,
			Forever: b.Until == inject.Never})
		noteDeadline(&sh.Pass, q)
	}
	return done
}

// rungHasWork is HasWork for a queue pair whose doorbells rules have to do with.
func (sh *Loop) rungHasWork(q *object.QP) bool {
	b := q.Faults.Bell
	news := b.Changed(q.SQ.Record.Observe()) || b.Until != 0 && sh.Now() >= b.Until
	if news && q.Stall.Kind == object.NoStall {
		return true
	}
	defer sh.replaceRecord(q, b.Seen())()
	return sh.ownWork(q)
}

// replaceRecord replaces the send record of q by one with this value, until the function is called that it
// returns.
func (sh *Loop) replaceRecord(q *object.QP, word uint32) (restore func()) {
	record := q.SQ.Record
	sh.copied.record.Publish(word)
	q.SQ.Record = sh.copied.record
	return func() { q.SQ.Record = record }
}
