//go:build linux && (amd64 || arm64)

package mmsg

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Message is a datagram (struct mmsghdr). Header points to buffers that the caller
// keeps.
type Message struct {
	Header unix.Msghdr
	N      uint32 // bytes that were sent or received
	_      [4]byte
}

// Send sends messages and returns how many. It does not wait: errno is EAGAIN if the socket's
// buffer is full. If n is not 0, errno is 0, and the error of message n comes with the next call.
func Send(fd int, m []Message) (n int, errno unix.Errno) {
	if len(m) == 0 {
		return 0, 0
	}
	r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(m))),
		uintptr(len(m)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// Dropped returns how many datagrams the kernel has dropped that were for a socket: its buffer was
// full, or its filter did not want them. The count wraps around. ok is false before Linux 4.12.
func Dropped(fd int) (n uint32, ok bool) {
	var info [memInfoWords]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 || size < uint32(unsafe.Sizeof(info)) {
		return 0, false
	}
	return info[memInfoDrops], true
}

// The words of SO_MEMINFO (linux/sock_diag.h): SK_MEMINFO_DROPS is the last one.
const (
	memInfoDrops = 8
	memInfoWords = 9
)

// Receive receives messages and returns how many. It does not wait: errno is EAGAIN if there is
// none. The caller sets Namelen and Controllen of each header before.
func Receive(fd int, m []Message) (n int, errno unix.Errno) {
	if len(m) == 0 {
		return 0, 0
	}
	r, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(m))),
		uintptr(len(m)),
		unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}
