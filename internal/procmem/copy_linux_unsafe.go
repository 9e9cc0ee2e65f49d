//go:build linux

package procmem

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Vec is a run of bytes, given by its address in this process or in another one: an
// iovec of the kernel. It does not keep memory of Go's alive.
type Vec struct{ Addr, Len uint64 }

// VecOf returns where b lies. Go's heap does not move its objects.
func VecOf(b []byte) Vec {
	return Vec{uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), uint64(len(b))}
}

// Read copies the bytes that the vectors of from name in the process pid to those that the
// vectors of to name in this process, and returns how many bytes it copied. If these are
// fewer than all, without an error, the next byte cannot be reached on one of the two
// sides. The kernel allows the copy to a caller that may trace the process.
//
// The copy is not atomic. Read allocates nothing. A page fault in the other process can
// take long, so Go's scheduler is told of the system call.
func Read(pid int, to, from []Vec) (n int, errno syscall.Errno) {
	return processVM(unix.SYS_PROCESS_VM_READV, pid, to, from)
}

// Write is Read in the other direction.
func Write(pid int, from, to []Vec) (n int, errno syscall.Errno) {
	return processVM(unix.SYS_PROCESS_VM_WRITEV, pid, from, to)
}

func processVM(call uintptr, pid int, here, there []Vec) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall6(call, uintptr(pid),
		uintptr(unsafe.Pointer(unsafe.SliceData(here))), uintptr(len(here)),
		uintptr(unsafe.Pointer(unsafe.SliceData(there))), uintptr(len(there)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
