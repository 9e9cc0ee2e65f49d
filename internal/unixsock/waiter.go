//go:build linux && (amd64 || arm64)

package unixsock

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Waiter waits for requests on connections that are silent, and says how many threads may
// wait for requests on other connections. Safe for concurrent use.
type Waiter struct {
	epoll *os.File // watched by Go's runtime

	mu    sync.Mutex
	conns map[int32]*Conn
	last  int32          // the last id that a Conn got
	hot   map[uint32]int // for each user, number of threads that wait for the user's connections
	total int            // number of threads that wait, for all users
}

// hotTime is for how long after a request a thread waits for the next one. It is longer than
// a program takes between calls that follow each other.
const hotTime = 20 * time.Millisecond

// mostHot is the most threads that wait at a time. A user gets another thread only if the user has
// fewer threads than there are free ones.
const mostHot = 64

// NewWaiter returns a Waiter. The caller closes it when no Conn uses it any more.
func NewWaiter() (*Waiter, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	_ = unix.SetNonblock(fd, true)
	w := &Waiter{epoll: os.NewFile(uintptr(fd), "connections"), conns: make(map[int32]*Conn),
		hot: make(map[uint32]int)}
	go w.run()
	return w, nil
}

// Close makes every wait that has begun or begins later return an error.
func (w *Waiter) Close() { _ = w.epoll.Close() }

// run notifies the connections on which requests have arrived, until Close.
func (w *Waiter) run() {
	raw, err := w.epoll.SyscallConn()
	if err == nil {
		_ = raw.Read(func(fd uintptr) bool { w.notify(int(fd)); return false })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.notify()
	}
}

func (w *Waiter) notify(fd int) {
	var events [32]unix.EpollEvent
	for n := len(events); n == len(events); {
		n, _ = unix.EpollWait(fd, events[:], 0)
		w.mu.Lock()
		for i := range max(n, 0) {
			if c := w.conns[events[i].Fd]; c != nil {
				c.notify()
			}
		}
		w.mu.Unlock()
	}
}

func (c *Conn) notify() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

func (w *Waiter) add(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.last++; w.conns[w.last] != nil; w.last++ {
	}
	c.id = w.last
	w.conns[c.id] = c
}

func (w *Waiter) remove(c *Conn) {
	w.mu.Lock()
	delete(w.conns, c.id)
	w.mu.Unlock()
	if c.in { // closing the descriptor would not suffice, because there may be copies
		_ = Control(w.epoll, func(epoll int) error {
			return Control(c, func(fd int) error { return unix.EpollCtl(epoll, unix.EPOLL_CTL_DEL, fd, nil) })
		})
	}
}

// wait waits until a request has arrived or the connection has ended. The epoll descriptor
// reports one event for each call of wait. It reports no event while a thread waits for the
// connection.
func (w *Waiter) wait(c *Conn) error {
	how := unix.EPOLL_CTL_MOD
	if !c.in {
		how = unix.EPOLL_CTL_ADD
	}
	err := Control(w.epoll, func(epoll int) error {
		return Control(c, func(fd int) error {
			return unix.EpollCtl(epoll, how, fd,
				&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: c.id})
		})
	})
	if err != nil {
		return err
	}
	c.in = true
	<-c.arrived
	return nil
}

// occupy counts another thread that waits for a connection of a user, unless there are too many, and reports
// whether it did.
func (w *Waiter) occupy(uid uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hot[uid] >= mostHot-w.total {
		return false
	}
	w.hot[uid]++
	w.total++
	return true
}

// vacate ends the wait of a thread that occupy has counted.
func (w *Waiter) vacate(uid uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total--
	w.hot[uid]--
	if w.hot[uid] == 0 {
		delete(w.hot, uid)
	}
}
