package nicless

import (
	"sync"
)

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
