//go:build linux

package blocking

import (
	"errors"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// enter gives up the P of this thread. Until leave, no function may be called that is not marked nosplit.
//
//go:linkname enter runtime.entersyscallblock
//go:noescape
func enter()

// leave waits for a P.
//
//go:linkname leave runtime.exitsyscall
//go:noescape
func leave()

// syscall6 is unix.Syscall6 for a call that is expected to wait for long.
//
//go:uintptrescapes
//go:nosplit
//go:norace
func syscall6(trap, a1, a2, a3, a4, a5, a6 uintptr) (r uintptr, err unix.Errno) {
	enter()
	r, _, err = unix.RawSyscall6(trap, a1, a2, a3, a4, a5, a6)
	leave()
	return r, err
}

// A call is what the kernel reads and writes while a thread waits. It is not on the stack of its goroutine,
// which may move then.
type call struct {
	timeout unix.Timespec
	poll    unix.PollFd
}

// calls are kept, so that a wait allocates nothing.
var calls = sync.Pool{New: func() any { return new(call) }}

// Readable waits until the descriptor is readable, at most for d, and reports whether it is. It may return
// too early.
func Readable(fd int, d time.Duration) (bool, error) {
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.timeout = unix.NsecToTimespec(int64(d))
	c.poll = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	n, e := syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&c.poll)), 1,
		uintptr(unsafe.Pointer(&c.timeout)), 0, 0, 0)
	if e != 0 && !errors.Is(e, unix.EINTR) {
		return false, e
	}
	return e == 0 && n > 0, nil
}

// Events waits without a limit of time until an epoll descriptor has events, and returns how many it has
// stored. It may return too early, with none.
func Events(epoll int, events []unix.EpollEvent) (n int) {
	r, e := syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), ^uintptr(0), 0, 0)
	if e != 0 {
		return 0
	}
	return int(r)
}

// EventsFor waits until an epoll descriptor has events, at most for timeout, and returns how many it has
// stored. timeout and events are not on a stack. The thread keeps its P at first, as in any system call. The
// error is ENOSYS before Linux 5.11. It may return too early, with the error EINTR.
func EventsFor(epoll int, events []unix.EpollEvent, timeout *unix.Timespec) (n int, err unix.Errno) {
	r, _, err := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(timeout)), 0, 0)
	if err != 0 {
		return 0, err
	}
	return int(r), 0
}

// Futex waits while the word has the value v, as futex(2) does for words that processes share, at most for d.
// It returns the error of the system call: EAGAIN if the word has another value, ETIMEDOUT after d.
func Futex(word *uint32, v uint32, d time.Duration) unix.Errno {
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.timeout = unix.NsecToTimespec(int64(d))
	_, e := syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(v),
		uintptr(unsafe.Pointer(&c.timeout)), 0, 0)
	return e
}

// futexWait is an operation of futex(2).
const futexWait = 0
