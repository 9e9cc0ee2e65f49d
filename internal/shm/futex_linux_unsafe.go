//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
	"unsafe"

	"github.com/nicless/nicless/internal/blocking"
	"golang.org/x/sys/unix"
)

// Operations of futex(2), for words that processes share.
const (
	futexWait = 0
	futexWake = 1
)

// longSleep is how long a sleep is at least for which the thread gives up its processor of the Go runtime at
// once (package blocking).
const longSleep = 10 * time.Millisecond

// Sleep waits while the word has the value v, until Wake is called for the word in any
// process that has mapped the memory, and at most for d. It may return too early. An error says
// that this memory does not support waiting: a PCI device's, for example.
func (p *BE32) Sleep(v uint32, d time.Duration) error {
	value := bits.ReverseBytes32(v) // as this processor loads it
	var e unix.Errno
	if d >= longSleep {
		e = blocking.Futex((*uint32)(unsafe.Pointer(p)), value, d)
	} else {
		t := unix.NsecToTimespec(int64(d))
		_, _, e = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(p)), futexWait,
			uintptr(value), uintptr(unsafe.Pointer(&t)), 0, 0)
	}
	switch {
	case e == 0 || errors.Is(e, unix.EAGAIN) || errors.Is(e, unix.EINTR) || errors.Is(e, unix.ETIMEDOUT):
		return nil
	default:
		return fmt.Errorf("shm: wait for a word: %w", e)
	}
}

// mostWoken is how many callers of Sleep a call of Wake wakes. Others than the one that is meant may wait
// for the word, as many as they have threads; 4000 of them took 100 ms to wake.
const mostWoken = 8

// Wake ends the calls of Sleep that wait for this word: those that have waited longest, at most
// mostWoken. It does not wait itself. It returns an error like Sleep's.
func (p *BE32) Wake() error {
	_, err := p.wake()
	return err
}

// wake is Wake, and returns how many it has woken.
func (p *BE32) wake() (n int, err error) {
	r, _, e := unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(p)), futexWake, mostWoken)
	if e != 0 {
		return 0, fmt.Errorf("shm: wake those that wait for a word: %w", e)
	}
	return int(r), nil
}
