package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// An explainer says what hardware would pass over in silence, to the client
// that caused it and to the log: at most once in a while for each code, and
// counts the rest. Each client has its own, so that none can silence another's.
type explainer [codes]struct {
	until uint64 // device clock; said nothing before
	held  uint32 // not said
}

// quietTime is how long a code is held back after it was said to a client.
const quietTime = 100 * time.Millisecond

// due reports whether something may be said now, and how often it was held
// back since the last time.
func (x *explainer) due(code code) (held uint32, ok bool) {
	k := &x[code]
	now := clock.Now()
	if now < k.until {
		k.held++
		return 0, false
	}
	held = k.held
	k.until, k.held = now+clock.Cycles(quietTime), 0
	return held, true
}

// A subject is what an explanation is about.
type subject struct {
	client *Client
	number uint32 // of the queue
	index  uint16 // of what kind says: control.Of*
	kind   uint8
	bytes  []byte // its beginning, as it was judged; nil: there is none
}

// explain says what is wrong with the WQE of the snapshot, at the head of q. A
// transfer in slices has left the snapshot to others.
func (sh *shard) explain(q *qp, code code, format string, args ...any) {
	s := subject{client: q.client, number: q.num, index: uint16(q.sq.done)}
	if q.job == nil {
		s.bytes = sh.scratch.wqe[:wqe.BlockSize]
	}
	sh.say(s, code, format, args)
}

// explainReceive says what is wrong with the receive that j has opened, or
// with there being none.
func (sh *shard) explainReceive(j *job, entry []byte, code code, format string, args ...any) {
	p := j.peer
	s := subject{p.client, p.num, j.index, control.OfReceive, entry}
	if entry == nil {
		s.index = uint16(p.rq.done)
	}
	sh.say(s, code, format, args)
}

// explainQueue says what is wrong with a queue pair, at this point of its work.
func (sh *shard) explainQueue(q *qp, code code, format string, args ...any) {
	sh.say(subject{client: q.client, number: q.num, index: uint16(q.sq.done)}, code, format, args)
}

// explainCQ says what is wrong with a completion queue.
func (sh *shard) explainCQ(q *cq, code code, format string, args ...any) {
	sh.say(subject{client: q.client, number: q.num, index: uint16(q.next), kind: control.OfCompletion}, code, format, args)
}

// sayCost is what an explanation costs of a budget of bytes.
const sayCost = 1024

func (sh *shard) say(s subject, code code, format string, args []any) {
	c := s.client
	c.count[control.CounterExplained]++
	if sh.journal.log == nil && c.events < 0 {
		return
	}
	sh.sched.effort += sayCost
	held, ok := uint32(0), sh.hooks.explainAll
	if !ok {
		held, ok = c.quiet.due(code)
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
	if c.events >= 0 && !c.send(&ev) {
		c.quiet[code].held++
	}
	sh.logExplanation(c, &ev, code)
}

// logBudget is how many explanations go to the log in a second, of all clients
// together: writing it takes the device's own time. What one user and one client may
// have of them is said in lines.go.
const logBudget = 100

// logExplanation writes an explanation to the log, unless there have been too
// many. Of a WQE it shows the control segment: what lies behind it may be data.
func (sh *shard) logExplanation(c *Client, ev *control.Event, code code) {
	if sh.journal.log == nil {
		return
	}
	unsaid, ok := sh.explained.spend(sh.shares.payer(c.uid), &c.said)
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
	sh.journal.say(slog.LevelWarn, ev.Text, attrs...)
}
