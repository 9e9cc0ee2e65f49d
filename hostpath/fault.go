package hostpath

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/reason"
)

// ErrNotPolled is the error of the zero Completion, which no Poll has returned.
var ErrNotPolled = errors.New("nicless: this completion was never polled (zero value)")

// A FaultError says why a work request has failed: what the CQE says, and what the device has explained. It
// is the error of Completion.Err, for errors.As. It unwraps to a *cqe.WorkError, and so to a cqe.Syndrome.
type FaultError struct {
	Queue   uint32 // number of the queue pair
	Receive bool   // the request was a receive, not a send
	Index   uint16 // wqe_counter: first block of the send WQE, or index of the receive
	ID      uint64 // ID of the work request
	Opcode  uint8  // opcode of the send WQE; 0 for a receive

	Syndrome cqe.Syndrome
	Vendor   uint8 // vendor_err of the CQE

	// The device has explained these fields: of the request or, if it was flushed, of the cause. They are
	// empty if the device has not explained the error, or if Overrun is true.
	Code  string // stable; docs/EXPLANATIONS.md has the likely cause and the remedy
	Text  string // a sentence with the value that was found, and what is allowed
	Bytes []byte // first 64 bytes of the WQE or receive, as the device has read them; nil: not known

	// Cause is where the cause was if it was elsewhere: the WQE or receive that failed before a flush, or the
	// other side's queue. Nil if the cause is in this request, or at no entry of a queue.
	Cause *FaultPlace

	// Overrun says that the explanation has been lost: too many others came before the completion was polled,
	// or before it was asked for its error. See Lost.
	Overrun bool
	Lost    string // if Overrun: why, in words

	// Stack is where the request was posted, one line for each function of the program, the innermost first:
	// only on a send queue made with SQConfig.Stacks.
	Stack []string
}

// A FaultPlace is an entry of a queue.
type FaultPlace struct {
	Queue uint32 // number of the queue pair, or of the completion queue if Of is "cqe"
	Index uint16
	Of    string // what Index counts: "wqe", "receive" or "cqe"
}

// String returns, for example, "wqe 7 of qp 0x000abc".
func (p FaultPlace) String() string {
	queue := "qp"
	if p.Of == "cqe" {
		queue = "cq"
	}
	return fmt.Sprintf("%s %d of %s 0x%06x", p.Of, p.Index, queue, p.Queue)
}

// Error returns, for example, "qp 0x000abc wqe 7 id 42: remote access error: RDMA_WRITE: rkey 0x51f2a3 gives
// local write+remote read, remote write is needed (key-access)". Without an explanation it returns the text
// of the cqe.WorkError.
func (e *FaultError) Error() string {
	s := ""
	switch {
	case e.Code == "" && e.Lost == "":
		s = e.work().Error()
	case e.Code == "":
		s = e.work().Error() + "; " + e.Lost
	case e.Cause == nil:
		s = fmt.Sprintf("%s: %s (%s)", e.work().Brief(), e.Text, e.Code)
	case e.Syndrome == cqe.Flush:
		s = fmt.Sprintf("%s because of %v: %s (%s)", e.work().Brief(), *e.Cause, e.Text, e.Code)
	default:
		s = fmt.Sprintf("%s: %s (%s), at %v", e.work().Brief(), e.Text, e.Code, *e.Cause)
	}
	if len(e.Stack) > 0 {
		s += "; posted at " + e.Stack[0]
	}
	return s
}

// Unwrap returns the error as a *cqe.WorkError.
func (e *FaultError) Unwrap() error { return e.work() }

func (e *FaultError) work() *cqe.WorkError {
	return &cqe.WorkError{QPN: e.Queue, Receive: e.Receive, Index: e.Index, Opcode: e.Opcode,
		Cause: e.Syndrome, Vendor: e.Vendor, ID: e.ID}
}

var indexed = [...]string{reason.OfWQE: "wqe", reason.OfReceive: "receive", reason.OfCompletion: "cqe"}

func placeOf(p reason.Place) FaultPlace {
	return FaultPlace{Queue: p.Queue, Index: p.Index, Of: indexed[min(int(p.Of), len(indexed)-1)]}
}

// fault returns the error of a completion that is not a success, or is the zero Completion.
func (c Completion) fault() error {
	switch {
	case c == Completion{}:
		return ErrNotPolled
	case c.Status == cqe.StatusSuccess || c.Status == cqe.StatusNone:
		return nil
	}
	e := &FaultError{Queue: c.QPN, Receive: !c.Requester(), Index: c.Counter, ID: c.ID, Opcode: c.WQEOpcode,
		Syndrome: c.Syndrome, Vendor: c.VendorErr}
	if c.reason == 0 {
		return e
	}
	k, ok := reason.Get(c.reason)
	r := k.Reason
	switch {
	case !ok:
		e.Overrun = true
		e.Lost = fmt.Sprintf("its reason is lost: %d others have failed before this one was asked for its error", reason.Most)
	case r == nil && k.Overrun:
		e.Overrun = true
		e.Lost = fmt.Sprintf("its reason is lost: the device keeps %d, and has overwritten it before this completion was polled", k.Entries)
	case r != nil:
		e.Code, e.Text, e.Bytes = r.Code, r.Text, r.WQE
		e.Cause = causeOf(r, c.place())
	}
	e.Stack = k.Stack
	return e
}

// causeOf returns where the cause in r was, if that is another place than that of the completion.
func causeOf(r *reason.Reason, own reason.Place) *FaultPlace {
	at := r.Place
	switch {
	case r.Cause.Queue != 0:
		at = r.Cause
	case r.Syndrome == 0: // the queue pair was stopped, and its next index says nothing
		return nil
	}
	if at == own {
		return nil
	}
	p := placeOf(at)
	return &p
}

// place returns what the completion completes.
func (c *Completion) place() reason.Place {
	p := reason.Place{Queue: c.QPN, Index: c.Counter}
	if !c.Requester() {
		p.Of = reason.OfReceive
	}
	return p
}

// explain finds the reason of an error completion. It is called when the completion is polled: later the
// device may have overwritten the reason. stack is where the request was posted, if that is known.
func (q *CQ) explain(c *Completion, stack []string) {
	c.reason = 0
	if q.reasons == nil {
		if stack != nil {
			c.reason = reason.Keep(reason.Kept{Stack: stack})
		}
		return
	}
	n, overrun := q.reasons.Number(c.place(), c.Syndrome == cqe.Flush)
	switch {
	case n == 0 && !overrun && stack == nil:
		return
	case n == q.keptReason && q.kept != 0 && stack == nil:
		c.reason = q.kept // the WQEs that are flushed after a fault share its reason
		return
	}
	k := reason.Kept{Overrun: overrun, Entries: q.reasons.Entries(), Stack: stack}
	if n != 0 {
		k.Reason = q.reasons.Read(n)
		k.Overrun = k.Reason == nil
	}
	c.reason = reason.Keep(k)
	if stack == nil {
		q.kept, q.keptReason = c.reason, n
	}
}
