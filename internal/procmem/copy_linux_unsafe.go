//go:build linux

package procmem

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Vec is a run of bytes at an address in this process or in another process; the kernel
// calls it an iovec. A Vec does not keep memory of Go's heap alive: a caller that does not use
// the bytes after the call needs runtime.KeepAlive.
type Vec struct{ Addr, Len uint64 }

// VecOf returns the Vec of b. It is valid as long as b is reachable: Go's heap does not move
// objects, and b cannot be on a goroutine's stack, which moves when it grows, because VecOf
// makes the compiler put b on the heap.
func VecOf(b []byte) Vec {
	at := unsafe.SliceData(b)
	if keep != nil {
		keep(at)
	}
	return Vec{uint64(uintptr(unsafe.Pointer(at))), uint64(len(b))}
}

// keep is always nil. The compiler does not know that, so bytes that keep might keep have to be
// on the heap.
var keep func(*byte)

// Read copies bytes from the process pid to this process. The vectors of from say where the
// bytes are in the process pid; the vectors of to say where they go in this process. Read
// returns how many bytes it copied. If it copied fewer bytes than all and returns no error,
// the next byte cannot be accessed in one of the two processes. The kernel allows the copy if
// the caller may trace the process.
//
// The copy is not atomic. Read allocates nothing. A page fault in the other process can take
// long, so Go's scheduler is notified of the system call.
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
