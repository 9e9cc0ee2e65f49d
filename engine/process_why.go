package engine

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/nicless/nicless/internal/procmem"
	"golang.org/x/sys/unix"
)

// What errors of the kernel mean where memory of a process is used. EPERM has two
// meanings: the process may not be traced by the device, or the device may not make
// the call at all, because of a seccomp profile such as containers have.

// whyNoPidfd says why a process cannot be watched.
func whyNoPidfd(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("there is none of that number: %w", err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%s: %s", unix.ErrnoName(err.(syscall.Errno)), forbidden("pidfd_open"))
	}
	return fmt.Errorf("pidfd_open: %w", err)
}

func forbidden(call string) string {
	return "the device may not call " + call + ", or its kernel does not have it. A seccomp profile forbids calls, such as that of a " +
		"container: it has to allow " + call + " for the engine"
}

// why says what an error of process_vm_readv means, or of process_vm_writev.
func (p *process) why(errno syscall.Errno, write bool) string {
	call, probe := "process_vm_readv", procmem.Read
	if write {
		call, probe = "process_vm_writev", procmem.Write
	}
	switch {
	case errno == unix.ESRCH && p.gone.Load() == replaced:
		return "ESRCH: the process has executed another program, or has ended, and what it had in memory went with it"
	case errno == unix.ESRCH:
		return "ESRCH: the process has ended"
	case errno == unix.EFAULT:
		return "EFAULT: nothing is mapped there, or it may not be used so"
	case errno == unix.ENOSYS:
		return "ENOSYS: " + forbidden(call)
	case errno == unix.EPERM && !works(probe):
		return "EPERM: " + forbidden(call)
	case errno == unix.EPERM:
		return "EPERM: the device may not trace the process. With ptrace_scope 1 of Yama (/proc/sys/kernel/yama) the process " +
			"allows it by prctl(PR_SET_PTRACER); with 2 and 3 only memory can be used that both map"
	}
	return fmt.Sprintf("%s: %s: %v", unix.ErrnoName(errno), call, errno)
}

// works reports whether a call works with the device's own memory, for which it needs
// no right but that to make the call.
func works(call func(pid int, here, there []procmem.Vec) (int, syscall.Errno)) bool {
	b := make([]byte, 2)
	n, errno := call(os.Getpid(), []procmem.Vec{procmem.VecOf(b[:1])}, []procmem.Vec{procmem.VecOf(b[1:])})
	return errno == 0 && n == 1
}
