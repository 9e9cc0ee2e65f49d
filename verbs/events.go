package verbs

import (
	"bytes"
	"os"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// What happens to objects is told by the device to us, and by us to the program:
// 16 bytes for each event, with the name that the program has given the object.

// An async is a descriptor that yields such events.
type async struct {
	mine   *os.File
	reader *os.File // a copy of the program's end
	cookie uint64
}

// maxAsyncs is how many a context may have; libibverbs makes one.
const maxAsyncs = 16

// asyncBuffer is for events that nobody has read; the kernel makes twice as much.
const asyncBuffer = 104 << 10

// counted is the part of an object that has events.
type counted struct {
	async   *async
	element uint64
	sent    uint32
}

// A subject is an object that has events.
type subject interface{ happening() *counted }

func (q *cq) happening() *counted  { return &q.events }
func (q *qp) happening() *counted  { return &q.events }
func (q *srq) happening() *counted { return &q.events }

// numberOf is what the device calls an object: numbers of different kinds may be
// equal.
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
	c.putFile(0, theirs)
	return nil
}

func newAsync() (a *async, theirs *os.File, err error) {
	a = new(async)
	if a.mine, theirs, err = unixsock.Pair("events"); err != nil {
		return nil, nil, err
	}
	_ = unixsock.Control(a.mine, func(fd int) error {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, asyncBuffer)
		return unix.Shutdown(fd, unix.SHUT_RD)
	})
	if a.cookie, err = cookieOf(theirs); err == nil {
		var copies []*os.File
		if copies, err = duplicates([]*os.File{theirs}); err == nil {
			a.reader = copies[0]
			return a, theirs, nil
		}
	}
	_ = closeFiles(a.mine, theirs)
	return nil, nil, err
}

// async returns the descriptor for events that an attribute names. A context that
// has one of them is not asked which it means.
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

// Types of events, numbered as ibv_event_type.
const (
	eventDeviceFatal = 8
)

var eventTypes = map[control.EventKind]struct {
	kind  kind
	event uint32
}{
	control.EventCQError:        {kindCQ, 0},
	control.EventInvalidRequest: {kindQP, 2},
	control.EventAccessError:    {kindQP, 3},
	control.EventEstablished:    {kindQP, 4},
	control.EventDrained:        {kindQP, 5},
	control.EventSRQLimit:       {kindSRQ, 15},
	control.EventLastWQE:        {kindQP, 16},
}

// send sends one event, and reports whether it was taken.
func (a *async) send(element uint64, event uint32) bool {
	if a == nil {
		return false
	}
	b := le.AppendUint64(nil, element)
	b = le.AppendUint64(b, uint64(event))
	return unixsock.Control(a.mine, func(fd int) error { return unix.Send(fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) }) == nil
}

// retract takes the events of an object that nobody has read back, and returns
// how many were read. A program that keeps others from reading there has read them.
func (o *counted) retract(x *uctx) (read uint32) {
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

// unsend takes events of an object out of the socket, at most so many, and returns how
// many there were. Those of others are put back.
func (a *async) unsend(element uint64, sent uint32) (taken uint32) {
	_ = unixsock.Control(a.reader, func(fd int) error {
		var keep [][16]byte
		for {
			var b [16]byte
			n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
			if err != nil || n != len(b) {
				break
			}
			if le.Uint64(b[:]) == element && taken < sent {
				taken++
			} else {
				keep = append(keep, b)
			}
		}
		for _, b := range keep {
			a.send(le.Uint64(b[:]), le.Uint32(b[8:]))
		}
		return nil
	})
	return taken
}

// listen translates what the device tells of this context, until that ends.
func (x *uctx) listen() {
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

func (x *uctx) translate(ev *control.Event) {
	if ev.Kind == control.EventExplanation {
		x.s.log.Debug("verbs explained", "program", x.name, "device", x.device.name(), "number", ev.Number, "explanation", ev.Text)
		x.s.watched.tell(x.pid, x.uid, "%s: queue %#06x: %s (%s)", x.device.name(), ev.Number, ev.Text, bytes.TrimRight(ev.Code[:], "\x00"))
		return
	}
	t, ok := eventTypes[ev.Kind]
	if !ok {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.numbers[numberOf(t.kind, ev.Number)]
	if s == nil {
		return // destroyed meanwhile
	}
	if q, ok := s.(*qp); ok && ev.Kind == control.EventDrained && !q.tellsDrained {
		return
	}
	if o := s.happening(); o.async.send(o.element, t.event) {
		o.sent++
	}
}

// fatal tells the program that its device is gone.
func (x *uctx) fatal() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.asyncs {
		a.send(0, eventDeviceFatal)
	}
}

// destroyCounted destroys an object that has events, and answers how many of
// them the program has read: it waits until it has acknowledged them.
func (c *call) destroyCounted() error {
	o := c.doomed()
	if err := c.x.remove(o); err != nil {
		return err
	}
	c.put32(1, o.self.(subject).happening().retract(c.x))
	return nil
}
