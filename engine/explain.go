//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// An explainer limits how often each code is explained to a client and in the log. An
// explanation reports a mistake that hardware would ignore silently. Explanations over the
// limit are held back and counted. Each client has its own explainer, so that no client can use up
// the explanations of another.
type explainer [codes.Count]struct {
	until uint64 // device clock before which the code is not explained again
	held  uint32 // explanations held back since the last one
}

// quietTime is how long further explanations of a code are held back after the code was
// explained to a client.
const quietTime = 100 * time.Millisecond

// due reports whether a code may be explained at now, on the device clock, and how many explanations of it were
// held back since the last one.
func (x *explainer) due(code codes.Code, now uint64) (held uint32, ok bool) {
	k := &x[code]
	if now < k.until {
		k.held++
		return 0, false
	}
	held = k.held
	k.until, k.held = now+clock.Cycles(quietTime), 0
	return held, true
}

// A subject is the queue, and the entry of the queue, that an explanation is about.
type subject struct {
	client *client
	number uint32 // number of the queue
	index  uint16 // index of the entry
	kind   uint8  // kind of the entry: WQE, receive or completion (control.Of*)
	bytes  []byte // first bytes of the entry, as they were judged; nil: none
}

// A reporter explains faults and delays.
type reporter struct {
	shard
	pace             // how the thread measures its own progress; see progress.go
	trial     bool   // a WQE is judged whose mistakes must not show yet; see fetch
	diagnosed int    // index in running of the QP that was diagnosed last
	published uint64 // device clock when the status pages were written last
}

// explain explains what is wrong with the WQE at the head of q. The explanation contains the
// beginning of the WQE from the snapshot. It has no bytes if the WQE is a long transfer that
// has become the queue's job, because its snapshot has been overwritten since.
func (sh *reporter) explain(q *qp, code codes.Code, format string, args ...any) {
	s := subject{client: q.client, number: q.num, index: uint16(q.sq.done)}
	if q.job == nil {
		s.bytes = sh.scratch.wqe[:wqe.BlockSize]
	}
	sh.say(s, code, format, args)
}

// explainReceive explains what is wrong with the receive that j has opened. If j has opened
// none, entry is nil, and the explanation is about the peer's next receive.
func (sh *reporter) explainReceive(j *job, entry []byte, code codes.Code, format string, args ...any) {
	p := j.peer
	s := subject{j.owner(), p.num, j.index, control.OfReceive, entry}
	if entry == nil {
		s.index = uint16(p.rq.done)
	}
	sh.say(s, code, format, args)
}

// explainResponder explains to the owner of the memory that j's request names what is wrong
// with the request.
func (sh *reporter) explainResponder(j *job, code codes.Code, format string, args ...any) {
	sh.say(subject{client: j.owner(), number: j.peer.num, index: uint16(j.peer.sq.done)}, code, format, args)
}

// explainRequester explains to the requester q what is wrong with j's request. If q is nil, the
// requester is on another device, and the responder's client is told.
func (sh *reporter) explainRequester(q *qp, j *job, code codes.Code, format string, args ...any) {
	if q == nil {
		sh.explainResponder(j, code, format, args...)
		return
	}
	sh.explain(q, code, format, args...)
}

// explainQueue explains what is wrong with a queue pair. The explanation names the index of
// the next WQE.
func (sh *reporter) explainQueue(q *qp, code codes.Code, format string, args ...any) {
	sh.say(subject{client: q.client, number: q.num, index: uint16(q.sq.done)}, code, format, args)
}

// explainCQ explains what is wrong with a completion queue.
func (sh *reporter) explainCQ(q *cq, code codes.Code, format string, args ...any) {
	sh.say(subject{client: q.client, number: q.num, index: uint16(q.next), kind: control.OfCompletion}, code, format, args)
}

// sayCost is how many bytes of a visit's budget an explanation uses.
const sayCost = 1024

// say sends an explanation to the client and writes it to the log, if the code is due.
func (sh *reporter) say(s subject, code codes.Code, format string, args []any) {
	if sh.trial {
		return
	}
	c := s.client
	c.count[control.CounterExplained]++
	if sh.journal.Discards() && c.events == nil {
		return
	}
	sh.sched.effort += sayCost
	held, ok := uint32(0), sh.hooks.explainAll
	if !ok {
		held, ok = c.quiet.due(code, sh.hooks.hold(clock.Now()))
	}
	if !ok {
		return
	}
	ev := control.Event{Kind: control.EventExplanation, Number: s.number, Index: s.index, Of: s.kind, Unsaid: held, Text: fmt.Sprintf(format, args...)}
	copy(ev.Code[:], code.String())
	if s.bytes != nil {
		ev.HasWQE = 1
		copy(ev.WQE[:], s.bytes)
	}
	if c.events != nil && !c.send(&ev) {
		c.quiet[code].held++
	}
	sh.logExplanation(c, &ev, code)
}

// logBudget is how many explanations of all clients together are written to the log in a
// second. They are limited because writing takes time of the device's own thread. The shares
// of one user and of one client are in log.go.
const logBudget = 100

// logExplanation writes an explanation to the log, unless there have been too many. It shows
// only the control segment of a WQE, because the bytes after it may be a program's data.
func (sh *reporter) logExplanation(c *client, ev *control.Event, code codes.Code) {
	if sh.journal.Discards() {
		return
	}
	unsaid, ok := sh.explained.Take(sh.ledger.Payer(c.uid), (*journal.Speaker)(&c.said))
	if !ok {
		return
	}
	attrs := []any{slog.String("code", code.String()), slog.String("queue", fmt.Sprintf("%#06x", ev.Number)),
		slog.Int("index", int(ev.Index)), slog.String("client", c.name)}
	if ev.HasWQE != 0 {
		attrs = append(attrs, slog.String("begins", fmt.Sprintf("%x", ev.WQE[:wqe.CtrlSize])))
	}
	if held := uint64(ev.Unsaid) + uint64(unsaid); held > 0 {
		attrs = append(attrs, slog.Uint64("unsaid", held))
	}
	sh.journal.Log(slog.LevelWarn, ev.Text, attrs...)
}
