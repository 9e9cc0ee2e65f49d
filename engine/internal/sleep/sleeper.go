//go:build linux && (amd64 || arm64)

// Package sleep is how a thread of the engine sleeps and is woken.
//
// A Sleeper is an epoll descriptor that watches eventfds. One eventfd is the engine's own,
// which Wake writes to; the others are those that clients wake the engine by. Each client has
// its own, so that no client can take the wake-ups of another. Eventfds are never read: the
// epoll descriptor is edge-triggered, so an event is that a write happened, not that there
// is something to read.
//
// Files: sleeper.go is the Sleeper, eventfd.go makes and signals eventfds.
package sleep

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Sleeper is where one thread sleeps. The methods New, Sleep and Close are for that
// thread, Add and Remove for whatever owns the Sleeper, Wake for any goroutine.
type Sleeper struct {
	epoll  int
	slack  int      // timer slack of the thread before New, in ns
	file   *os.File // of epoll if the thread must leave its P while it sleeps, or nil
	events [16]unix.EpollEvent

	mu  sync.Mutex
	own *os.File // the engine's eventfd; nil: closed
}

// New returns a Sleeper for the calling thread, which its goroutine has locked. Until Close
// the thread's timers are exact.
func New() (*Sleeper, error) {
	s := &Sleeper{epoll: -1}
	var err error
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		if s.own, err = NewEventFD(); err == nil {
			err = s.Add(s.own)
		}
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("engine: what it sleeps on: %w", err)
	}
	if runtime.GOMAXPROCS(0) == 1 {
		// A thread that sleeps in a system call keeps its P for a while, and all other
		// goroutines need it here. So the runtime waits for the descriptor instead, for
		// a millisecond at least.
		_ = unix.SetNonblock(s.epoll, true)
		s.file = os.NewFile(uintptr(s.epoll), "nicless:sleeper")
	}
	// By default the kernel may fire a thread's timers 50 us late, to fire several at once.
	s.slack, _ = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return s, nil
}

// Add has writes to an eventfd wake the thread.
func (s *Sleeper) Add(eventFD *os.File) error {
	fd := int(eventFD.Fd())
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
}

// Remove undoes Add. Closing the eventfd does not, because a client has a descriptor of it
// too.
func (s *Sleeper) Remove(eventFD *os.File) {
	_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, int(eventFD.Fd()), nil)
}

// Wake ends the thread's sleep, or the next one if it does not sleep. Safe for concurrent
// use, also after Close.
func (s *Sleeper) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		_ = Signal(s.own)
	}
}

// Sleep sleeps for d, or until an eventfd is written to, and reports whether one was.
func (s *Sleeper) Sleep(d time.Duration) (woken bool) {
	if s.file != nil {
		return s.sleepInRuntime(d)
	}
	t := unix.NsecToTimespec(int64(d))
	fds := []unix.PollFd{{Fd: int32(s.epoll), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds, &t, nil)
	if n > 0 {
		return s.takeEvents()
	}
	return err != nil && !errors.Is(err, unix.EINTR) // on an error, rather stay awake than sleep forever
}

// sleepInRuntime is Sleep by way of the runtime's poller.
func (s *Sleeper) sleepInRuntime(d time.Duration) (woken bool) {
	raw, err := s.file.SyscallConn()
	if err != nil || s.file.SetReadDeadline(time.Now().Add(d)) != nil {
		return true
	}
	return raw.Read(func(uintptr) bool { return s.takeEvents() }) == nil
}

// takeEvents takes the events that have happened, and reports whether there were any. If
// there are more than fit, the rest ends the next sleep.
func (s *Sleeper) takeEvents() bool {
	n, _ := unix.EpollWait(s.epoll, s.events[:], 0)
	return n > 0
}

// Close closes the engine's descriptors, and gives the thread its timer slack back.
func (s *Sleeper) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		_ = s.own.Close()
	}
	s.own = nil
	if s.slack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(s.slack), 0, 0, 0)
	}
	switch {
	case s.file != nil:
		_ = s.file.Close()
	case s.epoll >= 0:
		_ = unix.Close(s.epoll)
	}
}
