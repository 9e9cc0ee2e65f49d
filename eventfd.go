package nicless

import (
	"sync"
)

// A notifier is an eventfd that is readable while events wait to be taken, for
// programs that sleep in poll or epoll. It is made by the first call of EventFd.
type notifier struct {
	mu     sync.Mutex
	fd     int // 0: EventFd was not called yet
	closed bool
}

// EventFd returns a descriptor that is readable while NextEvent or PollEvent have
// something to return, for poll and epoll. The caller must neither read nor close it.
// It is valid until the context is closed. The collector does not close the Context then.
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

// PollEvent is NextEvent that does not wait: it returns nil when there is none.
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

// clearEvent makes the descriptor unreadable when nothing is left. An event that
// arrives meanwhile signals again, or is seen by the second look here.
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
