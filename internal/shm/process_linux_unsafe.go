package shm

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Vec is a run of bytes, by its address: in this process or in another one. It
// is what the kernel calls an iovec, and does not keep memory of Go's alive.
type Vec struct{ Addr, Len uint64 }

// VecOf returns where b lies. Go's heap does not move what is in it.
func VecOf(b []byte) Vec { return Vec{address(b), uint64(len(b))} }

// ReadProcess copies what the vectors of from name in another process to those
// of to in this one, and returns how many bytes it copied. Fewer than all, and
// no error: the next byte is the one that cannot be reached on one of the sides.
// The kernel allows it for a process that the caller could trace.
//
// The copy is no atomic one. It allocates nothing. A page fault of the other
// process can take its time, so the scheduler is told.
func ReadProcess(pid int, to, from []Vec) (n int, errno syscall.Errno) {
	return processVM(unix.SYS_PROCESS_VM_READV, pid, to, from)
}

// WriteProcess is ReadProcess in the other direction.
func WriteProcess(pid int, from, to []Vec) (n int, errno syscall.Errno) {
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
