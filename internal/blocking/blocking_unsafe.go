//go:build linux

package blocking

import (
	"errors"
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

// Syscall6 is unix.Syscall6 for a call that is expected to wait for long.
//
//go:uintptrescapes
//go:nosplit
//go:norace
func Syscall6(trap, a1, a2, a3, a4, a5, a6 uintptr) (r uintptr, err unix.Errno) {
	enter()
	r, _, err = unix.RawSyscall6(trap, a1, a2, a3, a4, a5, a6)
	leave()
	return r, err
}

// Readable waits until the descriptor is readable, at most for d, and reports whether it is. It may return
// too early.
func Readable(fd int, d time.Duration) (bool, error) {
	t := unix.NsecToTimespec(int64(d))
	p := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	n, e := Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&t)), 0, 0, 0)
	if e != 0 && !errors.Is(e, unix.EINTR) {
		return false, e
	}
	return e == 0 && n > 0, nil
}
