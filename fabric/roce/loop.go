//go:build linux && (amd64 || arm64)

package roce

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/blocking"
	"github.com/nicless/nicless/internal/cpu"
	"golang.org/x/sys/unix"
)

const (
	// napBlocked is how long a loop waits if the engine's ring or a socket's buffer is full.
	napBlocked = 20 * time.Microsecond
	relax      = 8                      // pauses of the processor between two looks at the ring
	shortSlice = 100 * time.Microsecond // the time slice that shortenSlice asks for

	// After a wait of at least longWait, the next wait is expected to be long too: then the loop gives up
	// its P before it (package blocking). Otherwise the runtime's sysmon thread would look up to 60 times
	// in the first 10 ms whether somebody needs that P. Shorter waits keep it, because packets follow
	// each other, and to take a P again would delay each of them.
	longWait = time.Millisecond
)

// run is the loop of a goroutine that sends, receives, or does both. s is nil if the loop does not send, r is
// nil if it does not receive.
//
// While there is work, the loop keeps its processor. (But at each system call, the Go runtime may give the
// P of the goroutine to another one.) When there is no work any more, the loop looks for work for
// Config.Spin, and then sleeps.
func (c *Carrier) run(w *waiter, s *sender, r *receiver) {
	defer c.done.Done()
	runtime.LockOSThread() // the thread ends with the goroutine
	shortenSlice()
	var idleSince time.Time // since when there has been no work; zero: the last step had work
	hasSlept := false       // the loop has slept since the last step that had work
	for !c.closing.Load() {
		did, blocked := 0, false
		if s != nil {
			did, blocked = s.step()
		}
		if r != nil {
			n, full := r.step()
			did, blocked = did+n, blocked || full
		}
		spins := c.cfg.Spin > 0 && !hasSlept // a loop that was woken without need sleeps again at once
		switch {
		case did > 0:
			idleSince, hasSlept = time.Time{}, false
		case blocked:
			t := unix.NsecToTimespec(int64(napBlocked))
			_ = unix.Nanosleep(&t, nil)
		case spins && idleSince.IsZero():
			idleSince = time.Now()
		case spins && time.Since(idleSince) < c.cfg.Spin:
			cpu.Relax(relax)
		default:
			w.sleep(c, s)
			hasSlept = true
		}
	}
}

// shortenSlice asks the kernel for short time slices for the calling thread. The shorter the slice of a
// thread is, the sooner the thread gets a core when it wakes (Linux 6.12; older kernels ignore the
// request).
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
	epoll  int           // the epoll descriptor on which the loop sleeps
	timer  int           // timerfd, which ends a sleep for wakeAfter
	event  int           // eventfd, which ends a sleep for signal. Nobody reads it: epoll reports each write
	file   *os.File      // epoll as a file, if the Go runtime waits for epoll in a sleep; otherwise nil
	events [16]unix.EpollEvent
	long   bool // the last wait was long
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
		// A thread that sleeps in a system call keeps its P for a while. Here there is only one P, and
		// all other goroutines need it. So the loop sleeps as a goroutine: the Go runtime's poller waits
		// for the epoll descriptor.
		_ = unix.SetNonblock(w.epoll, true)
		w.file = os.NewFile(uintptr(w.epoll), "nicless:roce")
	}
	return w, nil
}

// watch makes datagrams on a socket end the sleep. ready returns number for the socket.
func (w *waiter) watch(fd int, number uint32) error {
	return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)})
}

// setMuted mutes a socket, or ends that. Datagrams on a muted socket do not end the sleep. fd and number are
// those with which watch was called.
func (w *waiter) setMuted(fd int, number uint32, muted bool) {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)}
	if muted {
		e.Events = 0
	}
	_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_MOD, fd, &e)
}

// wakeAfter ends the sleep of the loop, or its next sleep, after a time. A second call replaces the first.
func (w *waiter) wakeAfter(d time.Duration) {
	t := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	_ = unix.TimerfdSettime(w.timer, 0, &t, nil)
}

// unwatch undoes watch. To close the socket is not enough if another process has the socket, too.
func (w *waiter) unwatch(fd int) { _ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// ready returns the events of the epoll descriptor: those of sockets that have datagrams, and of the timerfd
// and the eventfd. It does not wait.
func (w *waiter) ready() []unix.EpollEvent {
	n, err := unix.EpollWait(w.epoll, w.events[:], 0)
	if err != nil {
		return nil
	}
	return w.events[:n]
}

// sleep waits until there may be work. s is nil if the loop does not send.
//
// The loop stores asleep and then looks at the ring. The engine publishes packets and then compares and swaps
// asleep (in wake), which is a full barrier. So one of the two sees what the other has stored: see
// docs/ORDERING.md.
func (w *waiter) sleep(c *Carrier, s *sender) {
	w.asleep.Store(1)
	hasWork := c.closing.Load() || (s != nil && s.ready()) || (w == c.receiveWaiter && c.looks.pending())
	if !hasWork {
		w.wait()
	}
	w.asleep.Store(0)
}

// wait waits for a socket, the timerfd or the eventfd.
func (w *waiter) wait() {
	if w.file == nil {
		began := time.Now()
		if w.long {
			blocking.Events(w.epoll, w.events[:])
		} else {
			_, _ = unix.EpollWait(w.epoll, w.events[:], -1)
		}
		w.long = time.Since(began) >= longWait
		return
	}
	if raw, err := w.file.SyscallConn(); err == nil {
		// Read calls the function, and if it returns false, again each time that the Go runtime's poller
		// reports the epoll descriptor as readable. Nothing is read from the descriptor.
		_ = raw.Read(func(uintptr) bool { return len(w.ready()) > 0 })
	}
}

// wake ends the sleep of the loop, or has no effect if the loop is awake. The caller has published its work
// before. If several callers wake the loop from the same sleep, only one of them writes to the eventfd.
//
// Observe: asleep. Published by waiter.sleep.
func (w *waiter) wake() {
	if w.asleep.CompareAndSwap(1, 0) {
		w.signal()
	}
}

// eventOne is what is written to an eventfd to add 1: the number with 8 bytes, in little-endian order.
var eventOne = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// signal ends the sleep of the loop, or its next sleep.
func (w *waiter) signal() {
	for {
		if _, err := unix.Write(w.event, eventOne); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (w *waiter) close() {
	if w.file != nil {
		_ = w.file.Close() // closes epoll, too
		w.epoll = -1
	}
	for _, fd := range []int{w.epoll, w.event, w.timer} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	w.epoll, w.event, w.timer = -1, -1, -1
}
