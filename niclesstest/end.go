package niclesstest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nicless/nicless"
)

// An End is one end of a Pair. Its methods fail the test if something goes wrong that is not the test's
// subject, so they are for the goroutine of the test. Everything else can be done with the fields.
type End struct {
	Name   string // "a" or "b"; of the second Pair of a device "a2" or "b2", and so on
	Client *nicless.Context
	PD     *nicless.PD
	CQ     *nicless.CQ // completions of sends and receives
	MR     *nicless.MR
	QP     *nicless.QP
	Peer   *End

	d  *Device
	to *nicless.Address // of the peer, on UD
}

// String returns, for instance, "a (QP 0x000abc RC)".
func (e *End) String() string { return fmt.Sprintf("%s (%v)", e.Name, e.QP) }

// Write returns a signaled RDMA WRITE of the first n bytes of this end's memory to the beginning of the
// peer's. The test changes what it wants to be different, and posts it.
func (e *End) Write(n int) *nicless.SendWR { return e.wr(nicless.Write, n) }

// Read returns a signaled RDMA READ of the first n bytes of the peer's memory to the beginning of this end's.
func (e *End) Read(n int) *nicless.SendWR { return e.wr(nicless.Read, n) }

// Send returns a signaled SEND of the first n bytes of this end's memory. On UD it goes to the peer.
func (e *End) Send(n int) *nicless.SendWR { return e.wr(nicless.Send, n) }

func (e *End) wr(op nicless.Op, n int) *nicless.SendWR {
	wr := &nicless.SendWR{Op: op, Flags: nicless.Signaled, SGE: []nicless.SGE{e.MR.SGE(0, n)}, To: e.to}
	if op != nicless.Send {
		wr.RemoteAddr, wr.RKey = e.Peer.MR.Addr(), e.Peer.MR.RKey()
	}
	return wr
}

// Post posts a work request.
func (e *End) Post(wr *nicless.SendWR) {
	e.d.t.Helper()
	if err := e.QP.PostSend(wr); err != nil {
		e.d.t.Fatalf("niclesstest: %v: post %v: %v", e, wr.Op, err)
	}
}

// Receive posts a receive for messages of up to n bytes, which it puts at the beginning of this end's
// memory. On UD the header comes before the message (nicless.GRHSize).
func (e *End) Receive(n int) {
	e.d.t.Helper()
	if e.QP.Transport() == nicless.UD {
		n += nicless.GRHSize
	}
	if err := e.QP.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{e.MR.SGE(0, n)}}); err != nil {
		e.d.t.Fatalf("niclesstest: %v: post a receive: %v", e, err)
	}
}

// Do posts a work request and returns the next completion.
func (e *End) Do(wr *nicless.SendWR) nicless.Completion {
	e.d.t.Helper()
	e.Post(wr)
	return e.Next()
}

// patience is how long Next waits with the clock Real. A peer that is missing is reported after half a
// second, by the default Connection, and a machine that tests much at once may take some seconds longer.
// Tests with longer timers wait with CQ.Wait, or use another clock.
const patience = 30 * time.Second

// Next returns the next completion of this end, and waits for it. It fails the test if none comes: with the
// clock Real within 30 seconds, with Held at once, as nothing can happen then without Advance. In a bubble
// it waits as long as anything can happen there.
func (e *End) Next() nicless.Completion {
	e.d.t.Helper()
	var c [1]nicless.Completion
	n, err := 0, error(nil)
	switch e.d.cfg.Clock {
	case Held:
		e.d.engine.Sync()
		n, err = e.CQ.Poll(c[:])
	case Bubble:
		n, err = e.CQ.Wait(context.Background(), c[:])
	default:
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		n, err = e.CQ.Wait(ctx, c[:])
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.d.t.Fatalf("niclesstest: %v: no completion in %v", e, patience)
	case err != nil:
		e.d.t.Fatalf("niclesstest: %v: %v", e, err)
	case n == 0:
		e.d.t.Fatalf("niclesstest: %v: no completion at this time of the held clock; Advance lets time pass", e)
	}
	return c[0]
}
