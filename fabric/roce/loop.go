//go:build linux && (amd64 || arm64)

package roce

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/cpu"
	"golang.org/x/sys/unix"
)

const (
	// napBlocked is how long a loop waits if the engine's ring or a socket's buffer is full.
	napBlocked = 20 * time.Microsecond
	relax      = 8 // pauses between two looks at the ring
	shortSlice = 100 * time.Microsecond
)

// run is the loop of a goroutine. s is nil if it does not send, r if it does not receive.
//
// While there is work, it does not leave the processor, except that every system call lets the
// Go runtime give its P away. Without work, it spins for Config.Spin and sleeps then.
func (c *Carrier) run(w *waiter, s *sender, r *receiver) {
	defer c.done.Done()
	runtime.LockOSThread() // the thread ends with the goroutine
	shortenSlice()
	var idle time.Time // since when there was no work; zero: there was work
	for !c.closing.Load() {
		did, blocked := 0, false
		if s != nil {
			did, blocked = s.step()
		}
		if r != nil {
			n, full := r.step()
			did, blocked = did+n, blocked || full
		}
		switch {
		case did > 0:
			idle = time.Time{}
		case blocked:
			t := unix.NsecToTimespec(int64(napBlocked))
			_ = unix.Nanosleep(&t, nil)
		case c.cfg.Spin > 0 && idle.IsZero():
			idle = time.Now()
		case c.cfg.Spin > 0 && time.Since(idle) < c.cfg.Spin:
			cpu.Relax(relax)
		default:
			w.sleep(c, s)
			idle = time.Time{}
			if c.cfg.Spin > 0 {
				idle = time.Now().Add(-c.cfg.Spin) // one look, then sleep again
			}
		}
	}
}

// shortenSlice asks the kernel for short time slices for the calling thread. The shorter its
// slice is, the sooner a thread is given a core when it wakes (Linux 6.12; older kernels ignore the request).
func shortenSlice() {
	attr, err := unix.SchedGetAttr(0, 0)
	if err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = uint64(shortSlice)
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}

// A waiter lets a loop sleep until a socket has datagrams or the loop is woken.
type waiter struct {
	asleep atomic.Uint32 // 1 while the loop sleeps, or is about to
	epoll  int
	timer  int      // timerfd, which ends a sleep for wakeAfter
	event  int      // eventfd; it is written to, and never read: epoll reports each write once
	file   *os.File // epoll as a file, if the goroutine must give up its P while it sleeps; otherwise nil
	events [16]unix.EpollEvent
}

func newWaiter() (*waiter, error) {
	w := &waiter{epoll: -1, event: -1, timer: -1}
	var err error
	w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err == nil {
			err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.event,
				&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
		}
	}
	if err == nil {
		w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err == nil {
			err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.timer,
				&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
		}
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("roce: what a loop sleeps on: %w", err)
	}
	if runtime.GOMAXPROCS(0) == 1 {
		// A thread that sleeps in a system call keeps its P for a while. Here there is only
		// one, and all other goroutines need it. So the runtime waits for the descriptor.
		_ = unix.SetNonblock(w.epoll, true)
		w.file = os.NewFile(uintptr(w.epoll), "nicless:roce")
	}
	return w, nil
}

// watch makes datagrams on a socket end the sleep.
func (w *waiter) watch(fd int, number uint32) error {
	return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)})
}

// mute says whether datagrams on a socket do not end the sleep. The socket is one of watch.
func (w *waiter) mute(fd int, number uint32, mute bool) {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)}
	if mute {
		e.Events = 0
	}
	_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_MOD, fd, &e)
}

// wakeAfter ends a sleep after a time. A second call replaces the first.
func (w *waiter) wakeAfter(d time.Duration) {
	t := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	_ = unix.TimerfdSettime(w.timer, 0, &t, nil)
}

// unwatch undoes watch. Closing the socket would not suffice if another process has it too.
func (w *waiter) unwatch(fd int) { _ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// ready returns the events of the sockets that have datagrams. It does not wait.
func (w *waiter) ready() []unix.EpollEvent {
	n, err := unix.EpollWait(w.epoll, w.events[:], 0)
	if err != nil {
		return nil
	}
	return w.events[:n]
}

// sleep waits until there may be work. s is nil if the loop does not send.
//
// The loop stores asleep and then looks at the ring. The engine publishes packets and then
// compares and swaps asleep (wake), which is a full barrier: see docs/ORDERING.md.
func (w *waiter) sleep(c *Carrier, s *sender) {
	w.asleep.Store(1)
	if !c.closing.Load() && !(s != nil && s.ready()) {
		w.wait()
	}
	w.asleep.Store(0)
}

// wait waits for a socket or the eventfd.
func (w *waiter) wait() {
	if w.file == nil {
		_, _ = unix.EpollWait(w.epoll, w.events[:], -1)
		return
	}
	if raw, err := w.file.SyscallConn(); err == nil {
		_ = raw.Read(func(uintptr) bool { return len(w.ready()) > 0 })
	}
}

// wake ends the sleep of the loop, or has no effect if it is awake. The caller has published
// its work before. One call writes for each sleep.
//
// Observe: asleep. Published by waiter.sleep.
func (w *waiter) wake() {
	if w.asleep.CompareAndSwap(1, 0) {
		w.signal()
	}
}

// one is the number 1 in little-endian order, as an eventfd wants it.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// signal ends the sleep of the loop, or its next one.
func (w *waiter) signal() {
	for {
		if _, err := unix.Write(w.event, one); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (w *waiter) close() {
	if w.file != nil {
		_ = w.file.Close()
		w.epoll = -1
	}
	for _, fd := range []int{w.epoll, w.event, w.timer} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	w.epoll, w.event, w.timer = -1, -1, -1
}
