//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"log/slog"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// publish sends an event to those who have subscribed to it. put completes the event queue entry. It does
// not wait for the program. A subscription that ends meanwhile may get the event or not.
func (x *uctx) publish(o occasion, put func(eqe []byte)) {
	t := &x.subs
	t.mu.Lock()
	list := t.subscriptions[o]
	t.mu.Unlock()
	if len(list) == 0 {
		return
	}
	var b [8 + eqeSize]byte
	eqe := b[8:]
	eqe[eqeType] = byte(o.kind)
	put(eqe)
	for _, s := range list {
		le.PutUint64(b[:], s.cookie)
		switch {
		case s.eventfd != nil:
			x.signal(s)
		case s.to.omit:
			s.to.send(b[:8], s)
		case !s.to.send(b[:], nil):
			x.s.report(x.uid, nil, slog.LevelWarn, "verbs event lost", "program", x.name, "event", o.kind,
				"unread", mostWaiting)
		}
	}
}

// signal adds 1 to the eventfd of a subscription, unless the counter is full. A goroutine of the user's
// writes: a program can fill the counter between the poll and the write, which then waits. Each
// subscription has at most one such write, which adds all that has come meanwhile.
func (x *uctx) signal(s *subscription) {
	if s.signals.Add(1) > 1 {
		return
	}
	go x.s.engine.Aside(x.uid, func() {
		for n := s.signals.Load(); n > 0; {
			_ = unixsock.Control(s.eventfd.file, func(fd int) error { return addTo(fd, uint64(n)) })
			n = s.signals.Add(-n)
		}
	})
}

// addTo adds n to an eventfd, unless its counter is full.
func addTo(fd int, n uint64) error {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if ready, err := unix.Poll(p, 0); ready != 1 || err != nil || p[0].Revents&unix.POLLOUT == 0 {
		return err
	}
	_, err := unix.Write(fd, binary.NativeEndian.AppendUint64(nil, n))
	return err
}

// numberAt returns a function that puts the number of an object into an event queue entry.
func numberAt(at int, n uint32) func([]byte) {
	return func(eqe []byte) { binary.BigEndian.PutUint32(eqe[at:], n) }
}

// devxEvents has, for each event of the engine, the kind of its object and the type of event.
var devxEvents = map[control.EventKind]struct {
	kind  kind
	event uint16
}{
	control.EventCQError: {kindCQ, eventCQError}, control.EventInvalidRequest: {kindQP, eventInvalid},
	control.EventAccessError: {kindQP, eventAccess}, control.EventEstablished: {kindQP, eventEstablished},
	control.EventDrained: {kindQP, eventDrained}, control.EventSRQLimit: {kindSRQ, eventSRQLimit},
	control.EventLastWQE: {kindQP, eventLastWQE}, control.EventQPFatal: {kindQP, eventQPFatal},
	control.EventSRQError: {kindSRQ, eventSRQError},
}

// publishEngine sends an event of the engine to those who have subscribed to it.
func (x *uctx) publishEngine(ev *control.Event) {
	if sub, ok := portSubTypes[ev.Kind]; ok {
		x.publish(occasion{0, eventPortChange}, func(eqe []byte) {
			eqe[eqeSubType], eqe[eqePort] = sub, byte(ev.Number<<4)
		})
		return
	}
	switch ev.Kind {
	case control.EventCQError:
		x.publish(occasion{numberOf(kindCQ, ev.Number), eventCQError}, func(eqe []byte) {
			binary.BigEndian.PutUint32(eqe[eqeCQ:], ev.Number)
			eqe[eqeSyndrome] = overrunReason
		})
	default:
		if e, ok := devxEvents[ev.Kind]; ok {
			x.publish(occasion{numberOf(e.kind, ev.Number), e.event}, numberAt(eqeNumber, ev.Number))
		}
	}
}
