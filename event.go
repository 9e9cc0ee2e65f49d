package nicless

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"weak"

	"github.com/nicless/nicless/internal/control"
)

// EventKind says what an Event is about. The numbers are those of mlx5.
type EventKind uint32

// Kinds of events.
const (
	EventEstablished = EventKind(control.EventEstablished) // a QP in RTR has received its first message
	EventDrained     = EventKind(control.EventDrained)     // the send queue of a QP in SQD has stopped
	EventCQError     = EventKind(control.EventCQError)     // a CQ has overrun and gets no more completions

	// A peer's request is not allowed on the QP, or names memory that the peer may not use. The QP is in ERR.
	EventInvalidRequest = EventKind(control.EventInvalidRequest)
	EventAccessError    = EventKind(control.EventAccessError)

	// The ring of a QP or of an SRQ cannot be read, because a rule of faults says so. Queue pairs that need
	// it are in ERR.
	EventQPFatal  = EventKind(control.EventQPFatal)
	EventSRQError = EventKind(control.EventSRQError)

	EventLastWQE  = EventKind(control.EventLastWQE)  // a QP in ERR takes no more receives from its SRQ
	EventSRQLimit = EventKind(control.EventSRQLimit) // an SRQ has fewer receives than its limit, now off

	EventExplanation   = EventKind(control.EventExplanation)   // a description of a fault, in words
	EventAnnouncements = EventKind(control.EventAnnouncements) // see Context.Announcements

	// The port is down, is up again, or has another GID, and queue pairs that are connected reach their peers
	// no more; see Context.Port.
	EventPortError  = EventKind(control.EventPortError)
	EventPortActive = EventKind(control.EventPortActive)
	EventGIDChange  = EventKind(control.EventGIDChange)

	// A rule of faults says that the subnet manager has done something to the port, which stays as it is.
	EventLIDChange  = EventKind(control.EventLIDChange)
	EventPKeyChange = EventKind(control.EventPKeyChange)
	EventSMChange   = EventKind(control.EventSMChange)
	EventReregister = EventKind(control.EventReregister)
)

// ofPort reports whether events of the kind are about the port.
func (k EventKind) ofPort() bool { return k >= EventPortError && k <= EventReregister }

// String returns the name.
func (k EventKind) String() string { return control.EventKind(k).String() }

// An Event says that something happened to an object of this context. An event of kind
// EventAnnouncements is about no object. Those from EventPortError to EventReregister are about the port.
type Event struct {
	Kind   EventKind
	Number uint32 // the number of the object, or of the port; 0: none

	// One of the fields QP, CQ and SRQ is the object of the event, unless the object has been
	// closed or the program no longer refers to it. The others are nil. In an explanation all
	// three are nil.
	QP  *QP
	CQ  *CQ
	SRQ *SRQ

	Explanation *Explanation // the explanation, if Kind is EventExplanation
	Lost        int          // number of events before this one that were dropped, as the program was slow
}

// A waiting event has not been taken by the program yet. It has no strong reference to its
// object, so that the object and its Context can be garbage-collected.
type waiting struct {
	Event
	qp  weak.Pointer[QP]
	cq  weak.Pointer[CQ]
	srq weak.Pointer[SRQ]
}

// take returns the event with its object.
func (w *waiting) take() Event {
	ev := w.Event
	ev.QP, ev.CQ, ev.SRQ = w.qp.Value(), w.cq.Value(), w.srq.Value()
	return ev
}

// String returns, for instance, "QP 0x000abc: access_error", and for an explanation
// its text.
func (e Event) String() string {
	s := ""
	switch {
	case e.Kind == EventExplanation && e.Explanation != nil:
		s = e.Explanation.String()
	case e.Kind == EventAnnouncements:
		s = e.Kind.String()
	case e.Kind.ofPort():
		s = fmt.Sprintf("port %d: %v", e.Number, e.Kind)
	case e.Kind == EventCQError:
		s = fmt.Sprintf("CQ %#06x: %v", e.Number, e.Kind)
	case e.Kind == EventSRQLimit, e.Kind == EventSRQError:
		s = fmt.Sprintf("SRQ %#06x: %v", e.Number, e.Kind)
	default:
		s = fmt.Sprintf("QP %#06x: %v", e.Number, e.Kind)
	}
	if e.Lost > 0 {
		s += fmt.Sprintf(" (%d events before it were lost)", e.Lost)
	}
	return s
}

// An Explanation describes a fault in words: the value that was found, and the values
// that are allowed. Hardware reports a number at best. docs/EXPLANATIONS.md lists, for
// each Code, the likely cause and the remedy.
type Explanation struct {
	Code   string // the kind of fault; stable across versions
	Number uint32 // the number of the QP or CQ with the fault
	Index  uint16 // the index of the WQE, receive or completion
	Of     string // what Index counts: "wqe", "receive" or "cqe"
	WQE    []byte // the first 64 bytes of the WQE, as the device has read them; nil if there is no WQE
	Text   string
	Unsaid int // number of explanations of this code that were held back since the last of this code
}

// String returns the code, the place and the text, for instance
// "key-unknown: qp 0x000abc wqe 7: rkey 0xdeadbeef names no memory region".
func (x Explanation) String() string {
	queue := "qp"
	if x.Of == "cqe" {
		queue = "cq"
	}
	return fmt.Sprintf("%s: %s 0x%06x %s %d: %s", x.Code, queue, x.Number, x.Of, x.Index, x.Text)
}

// indexed returns what the index of an explanation counts: "wqe", "receive" or "cqe".
func indexed(of uint8) string {
	switch of {
	case control.OfReceive:
		return "receive"
	case control.OfCompletion:
		return "cqe"
	}
	return "wqe"
}

// LogValue implements slog.LogValuer. The attributes have the same names as in the engine's
// log.
func (x Explanation) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("code", x.Code), slog.String("queue", fmt.Sprintf("0x%06x", x.Number)),
		slog.Int(x.Of, int(x.Index))}
	if x.Unsaid > 0 {
		attrs = append(attrs, slog.Int("unsaid", x.Unsaid))
	}
	return slog.GroupValue(append(attrs, slog.String("text", x.Text))...)
}

// LogExplanations returns a handler for OnExplanation that writes warnings to log. Nil
// means slog.Default.
func LogExplanations(log *slog.Logger) func(Explanation) {
	if log == nil {
		log = slog.Default()
	}
	return func(x Explanation) { log.Warn("nicless: work request at fault", slog.Any("explanation", x)) }
}

// maxEvents is how many events can wait to be taken. If more arrive, the oldest are dropped.
const maxEvents = 256

// NextEvent returns the next event, and waits for one if there is none. At most 256 events
// wait to be taken. If more arrive, the oldest are dropped (see Event.Lost). The error is
// ErrDeviceGone if the device is gone and its last event was returned, and ctx.Err() when
// ctx ends.
//
// NextEvent is safe for concurrent use.
func (c *Context) NextEvent(ctx context.Context) (Event, error) {
	for {
		if ev, err := c.PollEvent(); ev != nil {
			return *ev, nil
		} else if err != nil {
			return Event{}, err
		}
		select {
		case w := <-c.inbox:
			c.clearEvent()
			return w.take(), nil
		case <-ctx.Done():
			return Event{}, ctx.Err()
		case <-c.noEvents:
		case <-c.ended:
			if !c.closed.Load() {
				<-c.noEvents // return the last events of the device before the error
			}
		}
	}
}

// OnExplanation sets f as the handler for explanations, which NextEvent then does not
// return. The context calls f on one goroutine, one call at a time. A nil f removes the
// handler. f must not close the context, because Close waits for f. If f refers to the
// context or to an object of it, the garbage collector never closes the context.
func (c *Context) OnExplanation(f func(Explanation)) {
	switch {
	case c.client == nil: // nothing is explained
		return
	case f == nil:
		c.explain.Store(nil)
		return
	}
	c.explain.Store(&f)
}

// listen reads events until the device closes the descriptor.
func (c *client) listen(from *os.File) {
	defer c.signalEvent()
	defer close(c.noEvents)
	var in [control.MaxMessage]byte
	for {
		n, err := from.Read(in[:])
		if err != nil || n == 0 {
			return
		}
		c.parse(in[:n])
	}
}

// parse delivers an event as it was read.
func (c *client) parse(in []byte) {
	var m control.Event
	_, payload, err := control.ParseHeader(in)
	if err != nil || control.Parse(control.OpOpenEvents, payload, &m) != nil {
		return // an event that only a later version of the protocol has
	}
	c.deliver(&m)
}

func (c *client) deliver(m *control.Event) {
	switch m.Kind {
	case control.EventMessages:
		c.names.messagesWait()
		return
	case control.EventAnnouncements:
		if !c.announcementsChanged() {
			return
		}
	}
	w := waiting{Event: Event{Kind: EventKind(m.Kind), Number: m.Number}}
	c.mu.Lock()
	switch {
	case w.Kind == EventCQError:
		w.cq = c.cqs[m.Number]
	case w.Kind == EventSRQLimit, w.Kind == EventSRQError:
		w.srq = c.srqs[m.Number]
	case w.Kind == EventExplanation, w.Kind == EventAnnouncements, w.Kind.ofPort():
	default:
		w.qp = c.qps[m.Number]
	}
	c.mu.Unlock()
	if cq := w.cq.Value(); cq != nil {
		cq.overrun.Store(true)
	}
	if m.Kind == control.EventExplanation {
		x := Explanation{
			Code: string(bytes.TrimRight(m.Code[:], "\x00")), Number: m.Number, Index: m.Index,
			Of: indexed(m.Of), Text: m.Text, Unsaid: int(m.Suppressed),
		}
		if m.HasWQE != 0 {
			x.WQE = bytes.Clone(m.WQE[:])
		}
		if f := c.explain.Load(); f != nil {
			(*f)(x)
			return
		}
		w.Explanation = &x
	}
	c.put(w)
}

// put puts an event into the inbox, in place of the oldest one if the inbox is full.
func (c *client) put(w waiting) {
	for {
		w.Lost = c.lost
		select {
		case c.inbox <- w:
			c.lost = 0
			c.signalEvent()
			return
		default:
		}
		select {
		case old := <-c.inbox:
			c.lost += old.Lost
			if old.Kind == EventAnnouncements && w.Kind != EventAnnouncements {
				// It is never lost: no other comes before the program has called Announcements.
				defer c.put(waiting{Event: Event{Kind: EventAnnouncements}})
			} else {
				c.lost++
			}
		default:
		}
	}
}

// A notifier is an eventfd for programs that sleep in poll or epoll. It is readable while
// events wait to be taken. The first call of EventFd makes the eventfd.
type notifier struct {
	mu     sync.Mutex
	fd     int // 0: EventFd has not been called
	closed bool
}

// EventFd returns a file descriptor for poll and epoll. It is readable while NextEvent and
// PollEvent have something to return. The caller must neither read nor close it. It is
// valid until the context is closed. After a call of EventFd, the garbage collector does
// not close the Context.
func (c *Context) EventFd() (int, error) {
	const what = "event descriptor"
	if c.client == nil {
		return 0, wrap(what, errZero)
	}
	b := &c.eventFD
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, wrap(what, ErrClosed)
	}
	if b.fd == 0 {
		fd, err := newEventFD()
		if err != nil {
			return 0, wrap(what, err)
		}
		b.fd = fd
	}
	c.hold()
	if c.eventWaits() {
		b.signal()
	}
	return b.fd, nil
}

// PollEvent is NextEvent without waiting: it returns nil when there is no event.
func (c *Context) PollEvent() (*Event, error) {
	if c.client == nil {
		return nil, errZero
	}
	select {
	case w := <-c.inbox:
		c.clearEvent()
		ev := w.take()
		return &ev, nil
	default:
	}
	if c.closed.Load() {
		return nil, ErrClosed
	}
	select {
	case <-c.noEvents:
		return nil, ErrDeviceGone
	default:
	}
	c.clearEvent()
	return nil, nil
}

// eventWaits reports whether an event waits to be taken, or no more will come.
func (c *client) eventWaits() bool {
	select {
	case <-c.noEvents:
		return true
	default:
		return len(c.inbox) > 0
	}
}

// signalEvent makes the descriptor readable, after an event was put into the inbox.
func (c *client) signalEvent() {
	c.eventFD.mu.Lock()
	defer c.eventFD.mu.Unlock()
	c.eventFD.signal()
}

// clearEvent makes the descriptor unreadable when no event is left. If an event arrives
// meanwhile, either its signalEvent makes the descriptor readable again, or the second
// check in clearEvent does.
func (c *client) clearEvent() {
	b := &c.eventFD
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fd == 0 || c.eventWaits() {
		return
	}
	var count [8]byte
	_, _ = readFD(b.fd, count[:])
	if c.eventWaits() {
		b.signal()
	}
}

func (b *notifier) signal() {
	if b.fd != 0 {
		writeFD(b.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (b *notifier) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.fd != 0 {
		closeFD(b.fd)
		b.fd = 0
	}
}
