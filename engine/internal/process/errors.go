//go:build linux && (amd64 || arm64)

package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/nicless/nicless/internal/procmem"
	"golang.org/x/sys/unix"
)

// Texts for errors of the kernel about memory of a process. EPERM has two causes. The
// device may not trace the process, or the device may not make the call at all, because a
// seccomp profile forbids it. Containers have such profiles.

// WhyNoPidfd returns why the device cannot get a pidfd, by which it would watch a process.
func WhyNoPidfd(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("no process has that pid: %w", err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%s: %s", unix.ErrnoName(err.(syscall.Errno)), forbidden("pidfd_open"))
	}
	return fmt.Errorf("pidfd_open: %w", err)
}

func forbidden(call string) string {
	return "the device may not call " + call + ", or its kernel lacks the call. A seccomp profile, such as that of a " +
		"container, forbids calls: it has to allow " + call + " for the engine"
}

// Why explains an error of process_vm_readv or, if write is true, of process_vm_writev.
func (p *Process) Why(errno syscall.Errno, write bool) string {
	call, probe := "process_vm_readv", procmem.Read
	if write {
		call, probe = "process_vm_writev", procmem.Write
	}
	switch {
	case errno == unix.ESRCH && p.Gone.Load() == Replaced:
		return "ESRCH: the process has executed another program or has ended, so its memory is gone"
	case errno == unix.ESRCH:
		return "ESRCH: the process has ended"
	case errno == unix.EFAULT:
		return "EFAULT: nothing is mapped there, or the mapping does not allow this access"
	case errno == unix.ENOSYS:
		return "ENOSYS: " + forbidden(call)
	case errno == unix.EPERM && !works(probe):
		return "EPERM: " + forbidden(call)
	case errno == unix.EPERM:
		scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
		return "EPERM: the device may not trace the process. " + WhyNoTrace(strings.TrimSpace(string(scope)))
	}
	return fmt.Sprintf("%s: %s: %v", unix.ErrnoName(errno), call, errno)
}

// WhyNoTrace returns why the device, which may make the calls, may not trace a process. scope is
// the ptrace_scope of Yama, empty if the kernel has no Yama.
func WhyNoTrace(scope string) string {
	switch scope {
	case "", "0":
		return "Yama does not restrict it here. So the process has another user, is in another user namespace, has capabilities " +
			"that the device lacks, is not dumpable (prctl(PR_SET_DUMPABLE)), or a security module such as AppArmor or SELinux forbids it"
	case "1":
		return "ptrace_scope of Yama (/proc/sys/kernel/yama) is 1: a descendant of the process, root, or a process that it names by " +
			"prctl(PR_SET_PTRACER) may trace it, and the device is none of these"
	}
	return "ptrace_scope of Yama (/proc/sys/kernel/yama) is " + scope + ": only root may trace a process if it is 2, nobody if it is 3, so that " +
		"only memory that both map can be used"
}

// works reports whether a call works on the device's own memory. For this the device needs
// only the permission to make the call.
func works(call func(pid int, here, there []procmem.Vec) (int, syscall.Errno)) bool {
	b := make([]byte, 2)
	n, errno := call(os.Getpid(), []procmem.Vec{procmem.VecOf(b[:1])}, []procmem.Vec{procmem.VecOf(b[1:])})
	runtime.KeepAlive(b)
	return errno == 0 && n == 1
}
