//go:build linux && (amd64 || arm64)

// Package sleep lets a thread of the engine sleep and be woken.
//
// A Sleeper is an epoll descriptor that watches eventfds. One eventfd is the engine's own;
// Wake writes to it. The other eventfds are those by which clients wake the engine. Each
// client has its own eventfd, so that no client can take the wakeups of another. Eventfds are
// never read. The epoll descriptor is edge-triggered, so an event means that an eventfd was
// written to, not that there is something to read.
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

	"github.com/nicless/nicless/internal/blocking"
	"golang.org/x/sys/unix"
)

// A Sleeper lets one thread sleep. New, Sleep and Close are called on that thread. Add and
// Remove are called by the owner of the Sleeper. Wake may be called by any goroutine.
type Sleeper struct {
	epoll  int
	slack  int      // timer slack of the thread before New, in ns
	file   *os.File // epoll as a file, if the thread must give up its P while it sleeps; otherwise nil
	events [16]unix.EpollEvent

	timeout unix.Timespec // of the present nap

	mu  sync.Mutex
	own *os.File // the engine's eventfd; nil: closed
}

// New returns a Sleeper for the calling thread. The goroutine must be locked to the thread.
// Until Close the thread's timers are exact.
func New() (*Sleeper, error) {
	s := &Sleeper{epoll: -1}
	var err error
	s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		s.own, err = NewEventFD()
		if err == nil {
			err = s.Add(s.own)
		}
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("engine: what it sleeps on: %w", err)
	}
	if runtime.GOMAXPROCS(0) == 1 {
		// A thread that sleeps in a system call keeps its P for a while. Here there is only
		// one P, and all other goroutines need it. So the runtime waits for the descriptor
		// instead. Such a wait takes at least a millisecond.
		_ = unix.SetNonblock(s.epoll, true)
		s.file = os.NewFile(uintptr(s.epoll), "nicless:sleeper")
	}
	// By default the kernel may fire a thread's timers up to 50 us late, so that several fire
	// together.
	s.slack, _ = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return s, nil
}

// Add makes writes to an eventfd wake the thread.
func (s *Sleeper) Add(eventFD *os.File) error {
	fd := int(eventFD.Fd())
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
}

// Remove undoes Add. Closing the eventfd would not suffice, because a client also has a
// descriptor of it.
func (s *Sleeper) Remove(eventFD *os.File) {
	_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, int(eventFD.Fd()), nil)
}

// Wake ends the thread's sleep. If the thread does not sleep, Wake ends its next sleep at
// once. Safe for concurrent use, also after Close.
func (s *Sleeper) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		_ = Signal(s.own)
	}
}

// longSleep is how long a sleep is at least for which the thread gives up its P at once (package blocking):
// the runtime takes the P of a thread that sleeps in a system call after 10 ms.
const longSleep = 10 * time.Millisecond

// Sleep sleeps for d, or until an eventfd is written to, and reports whether an eventfd was
// written to.
func (s *Sleeper) Sleep(d time.Duration) (woken bool) {
	if s.file != nil {
		return s.sleepInRuntime(d)
	}
	if d >= longSleep {
		readable, err := blocking.Readable(s.epoll, d)
		if readable {
			return s.takeEvents()
		}
		return err != nil
	}
	s.timeout = unix.NsecToTimespec(int64(d))
	switch n, err := blocking.EventsFor(s.epoll, s.events[:], &s.timeout); err {
	case 0, unix.EINTR:
		return n > 0
	case unix.ENOSYS, unix.EPERM: // an old kernel, or the filter of a container does not know the call
	default:
		return true // stay awake rather than sleep forever
	}
	t := unix.NsecToTimespec(int64(d))
	fds := []unix.PollFd{{Fd: int32(s.epoll), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds, &t, nil)
	if n > 0 {
		return s.takeEvents()
	}
	return err != nil && !errors.Is(err, unix.EINTR) // on an error, stay awake rather than sleep forever
}

// sleepInRuntime is Sleep by means of the Go runtime's poller.
func (s *Sleeper) sleepInRuntime(d time.Duration) (woken bool) {
	raw, err := s.file.SyscallConn()
	if err != nil || s.file.SetReadDeadline(time.Now().Add(d)) != nil {
		return true
	}
	return raw.Read(func(uintptr) bool { return s.takeEvents() }) == nil
}

// takeEvents takes the events that have happened, and reports whether there were any. If
// there are more events than fit into s.events, the rest end the next sleep.
func (s *Sleeper) takeEvents() bool {
	n, _ := unix.EpollWait(s.epoll, s.events[:], 0)
	return n > 0
}

// Close closes the engine's descriptors and restores the thread's timer slack.
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
