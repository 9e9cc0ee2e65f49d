//go:build linux && (amd64 || arm64)

package report

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/reason"
	"github.com/nicless/nicless/wqe"
)

// An error completion carries its reason: before its CQE is published, the reason is in the ring of the
// client that polls the CQE (internal/reason). So does a queue pair that stops: the reason is in the ring
// before its first WQE is flushed.
//
// The explanation comes first, then the completion. So the thread remembers what it has explained last: one
// explanation, or two if the owner of the memory and the requester get different ones. The text is formatted
// only when it is needed.
//
// A client can cause a reason for each error completion that is no flush, and for each time that one of its
// queue pairs stops. It needs requests on the control socket to make the queue pair work again, which cost
// more than the reason. So reasons need no limit: the ring overwrites the oldest.

// remembered is how many explanations of one fault there can be.
const remembered = 2

// MostArgs is how many values an explanation formats, at most; a test counts them.
const MostArgs = 12

// A Recall holds the explanations of the last fault, the newest first.
type Recall [remembered]explained

// An explained is an explanation that has been given, or held back.
type explained struct {
	Subject
	code   codes.Code
	format string
	args   [MostArgs]any
	n      int                 // number of args
	bytes  [wqe.BlockSize]byte // Subject.Bytes, if there are any
	held   bool                // the event was held back; the completion is explained all the same
	number uint64              // of the reason that the ring has for Subject; 0: none yet
}

func (x *explained) text() string { return fmt.Sprintf(x.format, x.args[:x.n]...) }

// entry returns the first bytes of the WQE or of the receive, or nil.
func (x *explained) entry() []byte {
	if len(x.Bytes) == 0 {
		return nil
	}
	return x.Bytes
}

func (x *explained) place() reason.Place {
	return reason.Place{Queue: x.Number, Index: x.Index, Of: x.Kind}
}

// NewFault forgets the explanations of earlier faults. It is called before the first explanation of a fault
// that is explained to two clients.
func (sh *Reporter) NewFault() {
	for i := range sh.Recall {
		x := &sh.Recall[i]
		x.Subject, x.number = Subject{}, 0
		clear(x.args[:x.n]) // so that they can be collected
	}
}

// Remember remembers an explanation that is only for a completion, or for the flushes of a queue pair.
func (sh *Reporter) Remember(s Subject, code codes.Code, format string, args ...any) {
	sh.remember(s, code, format, args)
}

func (sh *Reporter) remember(s Subject, code codes.Code, format string, args []any) *explained {
	old, x := &sh.Recall[1], &sh.Recall[0]
	*old = *x
	old.Bytes = old.bytes[:len(x.Bytes)] // not those of x
	x.Subject, x.code, x.format, x.held, x.number = s, code, format, false, 0
	x.n = copy(x.args[:], args) // a copy, so that a call that explains nothing allocates nothing
	x.Bytes = x.bytes[:copy(x.bytes[:], s.Bytes)]
	return x
}

// recall returns the newest explanation for a client, or nil.
func (sh *Reporter) recall(c *object.Client) *explained {
	for i := range sh.Recall {
		if x := &sh.Recall[i]; x.Client == c {
			return x
		}
	}
	return nil
}

// Carry writes why the WQE or the receive at p fails with syndrome s. c is the client that polls the
// completion, which has not been published yet.
func (sh *Reporter) Carry(c *object.Client, p reason.Place, s cqe.Syndrome) {
	x := sh.recall(c)
	for i := range sh.Recall { // the newest first: a warning about the same WQE may be older
		if y := &sh.Recall[i]; y.Client == c && y.place() == p {
			x = y
			break
		}
	}
	r := reason.Reason{Place: p, Syndrome: uint8(s)}
	switch {
	case x == nil:
		r.Code = codes.ResponderFailed.String()
		r.Text = "the responder has refused it; why is said to the responder's client"
	case x.place() == p:
		describe(&r, x)
		r.WQE = x.entry()
		x.number = c.Reasons.Write(&r)
		if x.held && s != cqe.Flush { // a client can post to a stream that has failed without end
			if k := &c.Quiet[x.code]; k.Held > 0 { // otherwise a later explanation has told of it
				k.Held--
			}
			c.Count[control.CounterSuppressed]--
			sh.send(x, 0)
		}
		return
	default:
		r.Cause, r.CauseOf = x.place(), x.number
		describe(&r, x)
	}
	c.Reasons.Write(&r)
}

func describe(r *reason.Reason, x *explained) {
	r.Code, r.Text = x.code.String(), x.text()
}

// Stops writes why q stops: its WQEs and receives are flushed from now on. It does nothing if the completion
// with the error has said so already.
func (sh *Reporter) Stops(q *object.QP) {
	c := q.Client
	r := reason.Reason{Place: reason.Place{Queue: q.Num, Index: uint16(q.SQ.Done)}}
	if dead := deadCQ(q); dead != nil {
		if q.SQ.CQ.Dead && q.RQ.CQ.Dead {
			return // nobody will poll the flushes
		}
		r.Cause = reason.Place{Queue: dead.Num, Index: uint16(dead.Next), Of: control.OfCompletion}
		r.Code = codes.CQOverrun.String()
		r.Text = fmt.Sprintf("its completion queue %#06x has overrun", dead.Num)
		c.Reasons.Write(&r)
		return
	}
	x := sh.recall(c)
	if x == nil || x.Number == q.Num && x.number != 0 {
		return
	}
	describe(&r, x)
	if x.Number == q.Num {
		if x.Kind == control.OfReceive {
			r.Place = x.place()
		}
		r.WQE = x.entry()
		x.number = c.Reasons.Write(&r)
		return
	}
	r.Cause, r.CauseOf = x.place(), x.number
	c.Reasons.Write(&r)
}

// deadCQ returns a completion queue of q that has overrun, or nil.
func deadCQ(q *object.QP) *object.CQ {
	if q.SQ.CQ.Dead {
		return q.SQ.CQ
	}
	if q.RQ.CQ.Dead {
		return q.RQ.CQ
	}
	return nil
}

// StopsBecause writes that q stops for a reason that is not explained otherwise.
func (sh *Reporter) StopsBecause(q *object.QP, code codes.Code, format string, args ...any) {
	sh.Remember(Subject{Client: q.Client, Number: q.Num, Index: uint16(q.SQ.Done)}, code, format, args...)
}
