package nicless

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
)

// An IncomingDial is a program that has dialled a name, and waits until Accept or Reject is called. Call
// one of them, once.
type IncomingDial struct {
	c        *Context
	key      callKey
	from     boxAddress
	peer     Descriptor
	state    atomic.Uint32
	answer   atomic.Pointer[rendezvous.Message] // Accept or Reject; nil: none yet
	received chan rendezvous.Kind
	lastDial atomic.Pointer[time.Time] // when the last copy of the Dial came
}

// States of an IncomingDial.
const (
	callWaits   = iota
	callDecided // Accept or Reject was called
	callGone    // the dialler has given up before
)

// Peer returns the Descriptor of the queue pair with which the dialler connects, and of the memory that it
// offers. Peer().Device is the dialler's engine. Over RoCE it is only what the dialler says, and 0 if it says
// this engine or one to which a pool or UCX leads; Peer().Address is certain.
func (d *IncomingDial) Peer() Descriptor { return d.peer }

// Caller returns the dialler's engine and the number of its box there, as its announcement has them if it
// listens under a name (Announcement.Box). Both are 0 for a dialler over RoCE, who may be anybody.
func (d *IncomingDial) Caller() (device, box uint64) {
	if d.from.gid != [16]byte{} {
		return 0, 0
	}
	return d.from.device, d.from.number
}

// GaveUp reports whether the dialler is known to wait no longer, so that Accept would fail.
func (d *IncomingDial) GaveUp() bool { return d.state.Load() == callGone }

// Accept connects q with the dialler's queue pair. When it returns nil, both can send. q must be of the
// dialler's transport (Peer().Transport), made through the Listener's Context and not connected yet. memory
// is what the dialler may use: all of it together needs at most 130 bytes, 21 and the bytes of the name for
// each piece.
//
// An error says that the dialler is not connected. If Accept fails after it has connected q (State of q is
// not INIT), Close q, or take it to RST to use it again. Accept does not wait for a dialler that says
// nothing for 10 seconds.
func (d *IncomingDial) Accept(ctx context.Context, q *QP, o Connection, memory ...RemoteMemory) error {
	what := fmt.Sprintf("accept QP %#06x of engine %016x", d.peer.QPN, d.peer.Device)
	err := q.forNames(d.c)
	if err == nil {
		err = o.fill()
	}
	if err == nil && q.transport != d.peer.Transport {
		err = control.Errorf(control.CodeInvalid, "QP %#06x is %v, and the dialler's is %v", q.qpn, q.transport, d.peer.Transport)
	}
	var body string
	if err == nil {
		body, err = q.describe(memory, rendezvous.MaxBody)
	}
	if err != nil {
		return wrap(what, err) // the dialler still waits: another call may be right
	}
	if err := d.decide(); err != nil {
		return wrap(what, err)
	}
	if err := q.Connect(d.peer, o); err != nil {
		d.refuse("it could not connect its queue pair: " + err.Error())
		return wrap(what, err)
	}
	d.answer.Store(&rendezvous.Message{Kind: rendezvous.Accept, ID: d.key.id, Body: body})
	err = d.waitReady(ctx)
	switch {
	case err == nil || errors.Is(err, errGaveUp):
		d.over()
	default: // a dialler that has not got the Accept must not get one any more
		d.refuse("it waited for this program no longer: " + err.Error())
	}
	return wrap(what, err)
}

// decide says that the program has decided.
func (d *IncomingDial) decide() error {
	switch {
	case d.state.CompareAndSwap(callWaits, callDecided):
		return nil
	case d.state.Load() == callGone:
		return errGaveUp
	}
	return control.Errorf(control.CodeState, "Accept or Reject was called before")
}

// waitReady sends the answer until the dialler is connected too.
func (d *IncomingDial) waitReady(ctx context.Context) error {
	pause, silent := resendFirst, time.Duration(0) // see silenceMost
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if silent > silenceMost {
				return fmt.Errorf("the dialler says nothing for %v", silenceMost)
			}
			if err := d.c.sendMessage(d.from, *d.answer.Load()); useless(err) {
				return unwrapped(err)
			}
			again.Reset(pause)
			silent += pause
			pause = min(2*pause, resendMost)
		case kind := <-d.received:
			if kind == rendezvous.Ready {
				return nil
			}
			return errGaveUp
		case <-ctx.Done():
			return ctx.Err()
		case <-d.c.ended:
			return d.c.err()
		}
	}
}

// over says that the call is remembered only for late copies of its messages.
func (d *IncomingDial) over() {
	n := &d.c.names
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remember(finished{call: d.key})
}

// Reject refuses the dialler, whose DialName returns an error with the reason: the first 174 bytes of it.
func (d *IncomingDial) Reject(reason string) error {
	err := d.decide()
	if errors.Is(err, errGaveUp) {
		return nil
	}
	if err != nil {
		return wrap("reject", err)
	}
	d.refuse(reason)
	return nil
}

// refuse refuses the dialler. If the message is lost, the dialler asks again.
func (d *IncomingDial) refuse(reason string) {
	m := rendezvous.Message{Kind: rendezvous.Reject, ID: d.key.id, Body: rendezvous.Text(reason)}
	d.answer.Store(&m)
	_ = d.c.sendMessage(d.from, m)
	d.over()
}

// dialCame says that a copy of the Dial has come.
func (d *IncomingDial) dialCame() {
	now := time.Now()
	d.lastDial.Store(&now)
}

// waits reports whether the dialler waits still. One that says nothing has ended without a word; if it has
// not, its next Dial is a new one.
func (d *IncomingDial) waits() bool {
	if time.Since(*d.lastDial.Load()) > silenceMost && d.state.CompareAndSwap(callWaits, callGone) {
		n := &d.c.names
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.calls, d.key)
	}
	return d.state.Load() != callGone
}

// repeat answers another copy of the Dial.
func (d *IncomingDial) repeat() {
	d.dialCame()
	m := d.answer.Load()
	if m == nil {
		m = &rendezvous.Message{Kind: rendezvous.Hold, ID: d.key.id}
	}
	_ = d.c.sendMessage(d.from, *m)
}

// receive is called for Ready and Cancel.
func (d *IncomingDial) receive(k rendezvous.Kind) {
	if k == rendezvous.Cancel && d.state.CompareAndSwap(callWaits, callGone) {
		d.over()
		return
	}
	select {
	case d.received <- k:
	default: // copies
	}
}
