//go:build linux && (amd64 || arm64)

package verbs

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// Asynchronous events. The engine reports to this server what happens to objects, and the
// server to the program: one struct ib_uverbs_async_event_desc for each event, with the number
// that the program has given to the object.

// An async is a descriptor from which a program reads such events.
type async struct {
	mine   *os.File
	reader *os.File // a copy of the program's end
	cookie uint64   // cookie of the program's end, by which that end is recognised
}

// maxAsyncs is the most asyncs that a context may have; libibverbs makes one.
const maxAsyncs = 16

// asyncBuffer is the size of the socket's buffer for unread events; the kernel doubles it.
const asyncBuffer = 104 << 10

// eventState is the part of an object that its events need.
type eventState struct {
	async   *async
	element uint64 // the number that the program has given to the object
	sent    uint32
}

// An eventSource is an object that has events.
type eventSource interface{ state() *eventState }

func (q *cq) state() *eventState  { return &q.events }
func (q *qp) state() *eventState  { return &q.events }
func (q *srq) state() *eventState { return &q.events }

// numberOf makes one key of an object's kind and the device's number for the object. That
// number is unique only among objects of one kind.
func numberOf(k kind, n uint32) uint64 { return uint64(k)<<32 | uint64(n) }

func allocAsync(c *call) error {
	x := c.x
	if len(x.asyncs) >= maxAsyncs {
		return refuse(eNOMEM, "this context has %d descriptors for events, which is its limit", maxAsyncs)
	}
	if err := x.charge(asyncCost); err != nil {
		return err
	}
	a, theirs, err := newAsync()
	if err != nil {
		x.refund(asyncCost)
		return err
	}
	x.asyncs = append(x.asyncs, a)
	c.putFile(abi.AttrAsyncEventAllocFDHandle, theirs)
	return nil
}

func newAsync() (a *async, theirs *os.File, err error) {
	a = new(async)
	a.mine, theirs, err = unixsock.Pair("events")
	if err != nil {
		return nil, nil, err
	}
	_ = unixsock.Control(a.mine, func(fd int) error {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, asyncBuffer)
		return unix.Shutdown(fd, unix.SHUT_RD)
	})
	a.cookie, err = cookieOf(theirs)
	if err == nil {
		var copies []*os.File
		if copies, err = duplicates([]*os.File{theirs}); err == nil {
			a.reader = copies[0]
			return a, theirs, nil
		}
	}
	_ = closeFiles(a.mine, theirs)
	return nil, nil, err
}

// async returns the descriptor for events that an attribute names. Without that attribute it
// returns the context's first such descriptor, or nil. If the context has only one, async
// returns that one, and the shim need not send a copy of the program's descriptor.
func (c *call) async(id uint16) (*async, error) {
	if c.find(id) == nil || len(c.x.asyncs) == 1 {
		if len(c.x.asyncs) == 0 {
			return nil, nil
		}
		return c.x.asyncs[0], nil
	}
	f, err := c.file(id)
	if err != nil {
		return nil, err
	}
	cookie, err := cookieOf(f)
	if err != nil {
		return nil, refuse(eBADF, "async: %v", err)
	}
	for _, a := range c.x.asyncs {
		if a.cookie == cookie {
			return a, nil
		}
	}
	return nil, refuse(eBADF, "async: the descriptor is not of this context's events")
}

// eventTypes has, for each event of the engine, the kind of its object and the number of
// enum ibv_event_type.
var eventTypes = map[control.EventKind]struct {
	kind  kind
	event uint32
}{
	control.EventCQError:        {kindCQ, abi.EventCQErr},
	control.EventQPFatal:        {kindQP, abi.EventQPFatal},
	control.EventInvalidRequest: {kindQP, abi.EventQPReqErr},
	control.EventAccessError:    {kindQP, abi.EventQPAccessErr},
	control.EventEstablished:    {kindQP, abi.EventCommEst},
	control.EventDrained:        {kindQP, abi.EventSQDrained},
	control.EventSRQError:       {kindSRQ, abi.EventSRQErr},
	control.EventSRQLimit:       {kindSRQ, abi.EventSRQLimitReached},
	control.EventLastWQE:        {kindQP, abi.EventQPLastWQEReached},
}

// portEvents has the numbers of enum ibv_event_type for events about the port.
var portEvents = map[control.EventKind]uint32{
	control.EventPortError:  abi.EventPortErr,
	control.EventPortActive: abi.EventPortActive,
	control.EventGIDChange:  abi.EventGIDChange,
	control.EventLIDChange:  abi.EventLIDChange,
	control.EventPKeyChange: abi.EventPKeyChange,
	control.EventSMChange:   abi.EventSMChange,
	control.EventReregister: abi.EventClientReregister,
}

// send sends one event, and reports whether there was room for it.
func (a *async) send(element uint64, event uint32) bool {
	if a == nil {
		return false
	}
	b := make([]byte, abi.AsyncEventDescSize)
	le.PutUint64(b[abi.AsyncEventDescElement:], element)
	le.PutUint32(b[abi.AsyncEventDescEventType:], event)
	err := unixsock.Control(a.mine, func(fd int) error {
		return unix.Send(fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	return err == nil
}

// retract takes back the events of an object that the program has not read, and returns how
// many events of the object the program has read. If the program blocks access to its end of
// the socket, retract counts all of them as read.
func (o *eventState) retract(x *uctx) (read uint32) {
	if o.async == nil || o.sent == 0 {
		return o.sent
	}
	sent, async, element := o.sent, o.async, o.element
	taken := make(chan uint32, 1)
	if x.s.engine.Aside(x.uid, func() { taken <- async.unsend(element, sent) }) {
		return sent - <-taken
	}
	return sent
}

// unsend takes at most sent events of an object out of the socket, and returns how many
// there were. Events of other objects are put back.
func (a *async) unsend(element uint64, sent uint32) (taken uint32) {
	_ = unixsock.Control(a.reader, func(fd int) error {
		var keep [][abi.AsyncEventDescSize]byte
		for {
			var b [abi.AsyncEventDescSize]byte
			n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
			if err != nil || n != len(b) {
				break
			}
			if le.Uint64(b[abi.AsyncEventDescElement:]) == element && taken < sent {
				taken++
			} else {
				keep = append(keep, b)
			}
		}
		for _, b := range keep {
			a.send(le.Uint64(b[abi.AsyncEventDescElement:]), le.Uint32(b[abi.AsyncEventDescEventType:]))
		}
		return nil
	})
	return taken
}

// listen passes on the events that the engine sends for this context, until the context
// ends.
func (x *uctx) listen() {
	defer close(x.listened)
	var b [control.MaxMessage]byte
	for {
		n, err := x.events.Read(b[:])
		if n == 0 || err != nil {
			return
		}
		_, payload, err := control.ParseHeader(b[:n])
		if err != nil {
			continue
		}
		var ev control.Event
		if control.Parse(control.OpOpenEvents, payload, &ev) == nil {
			x.translate(&ev)
		}
	}
}

// passOn returns when all that the engine has sent for this context is passed on. A program that has polled
// an error and ended gets the reason of the error.
func (x *uctx) passOn() {
	_ = unixsock.Control(x.events, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) })
	<-x.listened
}

func (x *uctx) translate(ev *control.Event) {
	if ev.Kind == control.EventExplanation {
		x.s.log.Debug("verbs explained", "program", x.name, "device", x.device.name, "number", ev.Number,
			"explanation", ev.Text)
		x.s.watched.send(x.lineage, x.uid, "%s: %s", x.device.name, explanation(ev))
		return
	}
	if event, ok := portEvents[ev.Kind]; ok {
		x.s.renewPorts(x) // before the program asks
		x.publishEngine(ev)
		x.notifyPort(ev.Number, event)
		return
	}
	t, ok := eventTypes[ev.Kind]
	if !ok {
		return
	}
	x.publishEngine(ev)
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.numbers[numberOf(t.kind, ev.Number)]; s != nil { // otherwise it was destroyed meanwhile
		if q, ok := s.(*qp); !ok || ev.Kind != control.EventDrained || q.reportsDrained {
			s.state().notify(t.event)
		}
	}
	if t.kind == kindQP {
		for _, q := range x.targets[ev.Number] {
			q.events.notify(t.event)
		}
	}
}

// explanation returns an explanation for watchers: its place, its text and its code, and how many of this
// code the engine has left out before it. Texts about receives begin with the receive themselves.
func explanation(ev *control.Event) string {
	queue, counts := "qp", "wqe"
	switch ev.Of {
	case control.OfReceive:
		counts = "receive"
	case control.OfCompletion:
		queue, counts = "cq", "cqe"
	}
	place := fmt.Sprintf(" %s %d", counts, ev.Index)
	if strings.HasPrefix(" "+ev.Text, place) {
		place = ""
	}
	code := bytes.TrimRight(ev.Code[:], "\x00")
	return fmt.Sprintf("%s 0x%06x%s: %s (%s)%s", queue, ev.Number, place, ev.Text, code,
		leftOut(int(ev.Suppressed)))
}

// leftOut says how many lines were left out before a line.
func leftOut(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" [%d like it were left out before]", n)
}

// notify sends the program an event of the object.
func (o *eventState) notify(event uint32) {
	if o.async.send(o.element, event) {
		o.sent++
	}
}

// notifyPort sends the program an event of the device's port.
func (x *uctx) notifyPort(port, event uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.asyncs {
		a.send(uint64(port), event)
	}
}

// fatal notifies the program that its device is gone.
func (x *uctx) fatal() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.asyncs {
		a.send(0, abi.EventDeviceFatal)
	}
}
