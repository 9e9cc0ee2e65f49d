package engine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A sleeper is where the device's thread sleeps: an epoll descriptor that holds an
// eventfd of the device's own and one of each client that wakes it. They are told
// apart so that one client cannot take the wake-ups of another; none is ever
// read: an event is that somebody writes, not that there is something.
type sleeper struct {
	epoll int
	slack int      // of the thread's timers, in ns, as it was
	file  *os.File // of epoll, where the thread must leave its P when it sleeps
	out   [16]unix.EpollEvent

	mu  sync.Mutex
	own *os.File // nil: closed
}

// newSleeper makes a sleeper for the calling thread.
func newSleeper() (*sleeper, error) {
	b := &sleeper{epoll: -1}
	var err error
	if b.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		if b.own, err = newEventFD(); err == nil {
			err = b.add(b.own)
		}
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("engine: what it sleeps on: %w", err)
	}
	if runtime.GOMAXPROCS(0) == 1 {
		// A thread that sleeps in a system call keeps its P for a while, and here
		// all others need it. So the runtime waits for the descriptor instead, a
		// millisecond at least.
		_ = unix.SetNonblock(b.epoll, true)
		b.file = os.NewFile(uintptr(b.epoll), "nicless:sleeper")
	}
	// Timers of a thread may be late by 50 us, so that several can be served at once.
	b.slack, _ = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return b, nil
}

// attachSleeper makes the sleeper the shard's, with the descriptors of the clients that it
// has.
func (t *thread) attachSleeper() error {
	for c := range t.shard.clients {
		if c.wake.fd == nil {
			continue
		}
		if err := t.sleeper.add(c.wake.fd); err != nil {
			return fmt.Errorf("engine: what it sleeps on: %w", err)
		}
	}
	t.shard.sleeper = t.sleeper
	return nil
}

// detachSleepers takes the beds of all shards away: nobody runs them any more.
func (e *Engine) detachSleepers() {
	for _, l := range e.shards {
		l.sleeper = nil
	}
}

// newEventFD makes an eventfd, of which only is noticed that it is written to.
func newEventFD() (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "nicless:wake"), nil
}

// dupEventFD returns another descriptor of a bell: the party that is given it may close
// it at any time, also in this process.
func dupEventFD(bell *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(bell.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), bell.Name()), nil
}

func (b *sleeper) add(bell *os.File) error {
	fd := int(bell.Fd())
	return unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
}

// remove takes a bell out, which closing it does not: its client holds it too.
func (b *sleeper) remove(bell *os.File) {
	_ = unix.EpollCtl(b.epoll, unix.EPOLL_CTL_DEL, int(bell.Fd()), nil)
}

var eventOne = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// wake wakes who sleeps, or will. Safe for concurrent use, also after close.
func (b *sleeper) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.own != nil {
		_, _ = unix.Write(int(b.own.Fd()), eventOne)
	}
}

// sleep sleeps for d, or until somebody wakes the device, and reports whether
// somebody has.
func (b *sleeper) sleep(d time.Duration) (woken bool) {
	if b.file != nil {
		return b.sleepInRuntime(d)
	}
	t := unix.NsecToTimespec(int64(d))
	fds := []unix.PollFd{{Fd: int32(b.epoll), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds, &t, nil)
	if n > 0 {
		return b.takeEvents()
	}
	return err != nil && !errors.Is(err, unix.EINTR) // better awake than for ever asleep
}

// sleepInRuntime is sleep by way of the runtime.
func (b *sleeper) sleepInRuntime(d time.Duration) (woken bool) {
	raw, err := b.file.SyscallConn()
	if err != nil || b.file.SetReadDeadline(time.Now().Add(d)) != nil {
		return true
	}
	return raw.Read(func(uintptr) bool { return b.takeEvents() }) == nil
}

// takeEvents takes the events that are there. What is left of more wakes the device
// once more.
func (b *sleeper) takeEvents() bool {
	n, _ := unix.EpollWait(b.epoll, b.out[:], 0)
	return n > 0
}

func (b *sleeper) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.own != nil {
		_ = b.own.Close()
	}
	b.own = nil
	if b.slack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(b.slack), 0, 0, 0)
	}
	switch {
	case b.file != nil:
		_ = b.file.Close()
	case b.epoll >= 0:
		_ = unix.Close(b.epoll)
	}
}
