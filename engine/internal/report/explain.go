//go:build linux && (amd64 || arm64)

package report

import (
	"fmt"
	"log/slog"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recent"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A Subject is the queue, and the entry of the queue, that an explanation is about.
type Subject struct {
	Client *object.Client
	Number uint32 // number of the queue
	Index  uint16 // index of the entry
	Kind   uint8  // kind of the entry: WQE, receive or completion (control.Of*)
	Bytes  []byte // first bytes of the entry, as they were checked; nil: none
}

// A Reporter explains faults and delays.
type Reporter struct {
	object.Shard
	object.ProgressMeter        // how the thread measures its own progress; see progress.go
	Recall               Recall // what was explained last; see carry.go
	Trial                bool   // a WQE is checked whose mistakes must not show yet; see fetch
	Diagnosed            int    // index in Running of the QP that was diagnosed last
	Published            uint64 // device clock when the status pages were written last
}

// Explain explains what is wrong with the WQE at the head of q. The explanation contains the
// beginning of the WQE from the snapshot. It has no bytes if the WQE is a long transfer that
// has become the queue's job, because its snapshot has been overwritten since.
func (sh *Reporter) Explain(q *object.QP, code codes.Code, format string, args ...any) {
	s := Subject{Client: q.Client, Number: q.Num, Index: uint16(q.SQ.Done)}
	if q.Job == nil {
		s.Bytes = sh.Scratch.WQE[:wqe.BlockSize]
	}
	sh.ExplainSubject(s, code, format, args)
}

// ExplainReceive explains what is wrong with the receive that j has opened. If j has opened
// none, entry is nil, and the explanation is about the peer's next receive.
func (sh *Reporter) ExplainReceive(j *object.Job, entry []byte, code codes.Code, format string, args ...any) {
	sh.NewFault()
	p := j.Peer
	s := Subject{j.Owner(), p.Num, j.Index, control.OfReceive, entry}
	if entry == nil {
		s.Index = uint16(p.RQ.Done)
	}
	sh.ExplainSubject(s, code, format, args)
}

// ExplainResponder explains to the owner of the memory that j's request names what is wrong
// with the request.
func (sh *Reporter) ExplainResponder(j *object.Job, code codes.Code, format string, args ...any) {
	sh.NewFault()
	sh.ExplainSubject(Subject{Client: j.Owner(), Number: j.Peer.Num, Index: uint16(j.Peer.SQ.Done)}, code,
		format, args)
}

// ExplainRequester explains to the requester q what is wrong with j's request. If q is nil, the
// requester is on another device, and the explanation is for the responder's client.
func (sh *Reporter) ExplainRequester(q *object.QP, j *object.Job, code codes.Code, format string,
	args ...any) {
	if q == nil {
		sh.ExplainResponder(j, code, format, args...)
		return
	}
	if j.Owner() != q.Client && !sh.Trial {
		p := j.Peer
		sh.NewFault() // the responder's flushes carry it, too
		sh.Remember(Subject{Client: p.Client, Number: p.Num, Index: uint16(p.SQ.Done)}, code,
			"request of QP %#06x: "+format, append([]any{q.Num}, args...)...)
	}
	sh.Explain(q, code, format, args...)
}

// ExplainQueue explains what is wrong with a queue pair. The explanation names the index of
// the next WQE.
func (sh *Reporter) ExplainQueue(q *object.QP, code codes.Code, format string, args ...any) {
	sh.ExplainSubject(Subject{Client: q.Client, Number: q.Num, Index: uint16(q.SQ.Done)}, code, format, args)
}

// ExplainCQ explains what is wrong with a completion queue.
func (sh *Reporter) ExplainCQ(q *object.CQ, code codes.Code, format string, args ...any) {
	sh.ExplainSubject(Subject{Client: q.Client, Number: q.Num, Index: uint16(q.Next),
		Kind: control.OfCompletion}, code, format, args)
}

// explainCost is how many bytes of a visit's budget an explanation uses.
const explainCost = 1024

// ExplainSubject sends an explanation to the client and writes it to the log, if the code is due. It
// remembers the explanation for the completion that may follow (carry.go).
func (sh *Reporter) ExplainSubject(s Subject, code codes.Code, format string, args []any) {
	if sh.Trial {
		return
	}
	c := s.Client
	c.Count[control.CounterExplained]++
	x := sh.remember(s, code, format, args)
	if c.Watched != 0 {
		sh.Sched.Effort += explainCost
		sh.recordExplanation(&s, code, format, args)
	}
	if sh.Journal.Discards() && c.Events == nil {
		return
	}
	sh.Sched.Effort += explainCost
	held, ok := uint32(0), sh.Hooks.ExplainAll
	if !ok {
		held, ok = c.Quiet.Take(code, sh.Hooks.Hold(clock.Now()))
	}
	if !ok {
		c.Count[control.CounterSuppressed]++
		x.held = true
		return
	}
	sh.send(x, held)
}

// send sends an explanation to its client, and writes it to the log. held is how many explanations of the
// code have been held back.
func (sh *Reporter) send(x *explained, held uint32) {
	c := x.Client
	ev := control.Event{Kind: control.EventExplanation, Number: x.Number, Index: x.Index, Of: x.Kind,
		Suppressed: held, Text: x.text()}
	copy(ev.Code[:], x.code.String())
	if len(x.Bytes) > 0 {
		ev.HasWQE = 1
		copy(ev.WQE[:], x.Bytes)
	}
	if c.Events != nil && !c.Send(&ev) {
		c.Count[control.CounterSuppressed]++
		c.Quiet[x.code].Held++
	}
	if c.Recent == nil {
		c.Recent = new(recent.List)
	}
	c.Recent.Add(x.code.String(), ev.Text, ev.Number, ev.Index)
	sh.logExplanation(c, &ev, x.code)
}

// logExplanation writes an explanation to the log, unless there have been too many. It shows
// only the control segment of a WQE, because the bytes after it may be a program's data.
func (sh *Reporter) logExplanation(c *object.Client, ev *control.Event, code codes.Code) {
	if sh.Journal.Discards() {
		return
	}
	unsaid, ok := sh.Explained.Take(sh.Ledger.Payer(c.UID), (*journal.Speaker)(&c.Logged))
	if !ok {
		return
	}
	attrs := []any{slog.String("code", code.String()), slog.String("queue", fmt.Sprintf("%#06x", ev.Number)),
		slog.Int("index", int(ev.Index)), slog.String("client", c.Name)}
	if ev.HasWQE != 0 {
		attrs = append(attrs, slog.String("begins", fmt.Sprintf("%x", ev.WQE[:wqe.CtrlSize])))
	}
	if held := uint64(ev.Suppressed) + uint64(unsaid); held > 0 {
		attrs = append(attrs, slog.Uint64("unsaid", held))
	}
	sh.Journal.Log(slog.LevelWarn, ev.Text, attrs...)
}
