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

// A bed is where the device's thread sleeps: an epoll descriptor that holds an
// eventfd of the device's own and one of each client that wakes it. They are told
// apart so that one client cannot take the wake-ups of another; none is ever
// read: an event is that somebody writes, not that there is something.
type bed struct {
	epoll int
	slack int      // of the thread's timers, in ns, as it was
	file  *os.File // of epoll, where the thread must leave its P when it sleeps
	out   [16]unix.EpollEvent

	mu  sync.Mutex
	own *os.File // nil: closed
}

// makeBed makes a bed for the calling thread.
func makeBed() (*bed, error) {
	b := &bed{epoll: -1}
	var err error
	if b.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		if b.own, err = newBell(); err == nil {
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
		b.file = os.NewFile(uintptr(b.epoll), "nicless:bed")
	}
	// Timers of a thread may be late by 50 us, so that several can be served at once.
	b.slack, _ = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return b, nil
}

// lieDown makes the bed the lane's, with the descriptors of the clients that it
// has.
func (t *thread) lieDown() error {
	for c := range t.lane.clients {
		if c.bell == nil {
			continue
		}
		if err := t.bed.add(c.bell); err != nil {
			return fmt.Errorf("engine: what it sleeps on: %w", err)
		}
	}
	t.lane.bed = t.bed
	return nil
}

// getUp takes the beds of all lanes away: nobody runs them any more.
func (e *Engine) getUp() {
	for _, l := range e.lanes {
		l.bed = nil
	}
}

// newBell makes an eventfd, of which only is noticed that it is written to.
func newBell() (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "nicless:wake"), nil
}

// sameBell returns another descriptor of a bell: the party that is given it may close
// it at any time, also in this process.
func sameBell(bell *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(bell.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), bell.Name()), nil
}

func (b *bed) add(bell *os.File) error {
	fd := int(bell.Fd())
	return unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
}

// remove takes a bell out, which closing it does not: its client holds it too.
func (b *bed) remove(bell *os.File) {
	_ = unix.EpollCtl(b.epoll, unix.EPOLL_CTL_DEL, int(bell.Fd()), nil)
}

var eventOne = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// rouse wakes who sleeps, or will. Safe for concurrent use, also after close.
func (b *bed) rouse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.own != nil {
		_, _ = unix.Write(int(b.own.Fd()), eventOne)
	}
}

// sleep sleeps for d, or until somebody wakes the device, and reports whether
// somebody has.
func (b *bed) sleep(d time.Duration) (woken bool) {
	if b.file != nil {
		return b.parked(d)
	}
	t := unix.NsecToTimespec(int64(d))
	fds := []unix.PollFd{{Fd: int32(b.epoll), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds, &t, nil)
	if n > 0 {
		return b.seen()
	}
	return err != nil && !errors.Is(err, unix.EINTR) // better awake than for ever asleep
}

// parked is sleep by way of the runtime.
func (b *bed) parked(d time.Duration) (woken bool) {
	raw, err := b.file.SyscallConn()
	if err != nil || b.file.SetReadDeadline(time.Now().Add(d)) != nil {
		return true
	}
	return raw.Read(func(uintptr) bool { return b.seen() }) == nil
}

// seen takes the events that are there. What is left of more wakes the device
// once more.
func (b *bed) seen() bool {
	n, _ := unix.EpollWait(b.epoll, b.out[:], 0)
	return n > 0
}

func (b *bed) close() {
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
