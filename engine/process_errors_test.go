package engine

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const seccompVariable = "NICLESS_TEST_SECCOMP"

// forbid makes a system call fail for every thread of this process, and cannot be undone.
func forbid(t *testing.T, call uint32, errno unix.Errno) {
	t.Helper()
	var program []byte
	add := func(code uint16, jt, jf uint8, k uint32) {
		program = binary.NativeEndian.AppendUint16(program, code)
		program = append(program, jt, jf)
		program = binary.NativeEndian.AppendUint32(program, k)
	}
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0) // seccomp_data.nr
	add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, call)
	add(unix.BPF_RET|unix.BPF_K, 0, 0, 0x00050000|uint32(errno)) // SECCOMP_RET_ERRNO
	add(unix.BPF_RET|unix.BPF_K, 0, 0, 0x7fff0000)               // SECCOMP_RET_ALLOW
	fprog := binary.NativeEndian.AppendUint64(nil, uint64(len(program)/8))
	fprog = binary.NativeEndian.AppendUint64(fprog, procmem.VecOf(program).Addr)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(procmem.VecOf(fprog).Addr))
	runtime.KeepAlive(program)
	runtime.KeepAlive(fprog)
	require.Zero(t, e)
}

// TestUnderSeccomp is not a test. It is the body of a process that may not make a call,
// which an environment variable names. The process prints what the device explains.
func TestUnderSeccomp(t *testing.T) {
	words := strings.Fields(os.Getenv(seccompVariable))
	if len(words) != 2 {
		t.Skip("the other process of TestForbiddenCallsAreExplained")
	}
	call, _ := strconv.Atoi(words[0])
	errno, _ := strconv.Atoi(words[1])
	c, said := logged()
	r, p, q := duo(t, c)
	if call != unix.SYS_PROCESS_VM_WRITEV {
		forbid(t, uint32(call), unix.Errno(errno))
		fmt.Println("said", q.h.c.ShareProcess(os.Getpid(), ownGuard()))
		return
	}
	q.h.share()
	far := q.h.keyOf(q.h.private, 64, control.AccessAll&^control.AccessZeroBased)
	forbid(t, uint32(call), unix.Errno(errno))
	p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), []byte("not written"))
	r.settle()
	fmt.Println("said", strings.ReplaceAll(said.String(), "\n", " "))
}

// If a seccomp profile forbids the device a call, the explanation names the call, and
// blames neither Yama nor the process.
func TestForbiddenCallsAreExplained(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	for _, row := range []struct {
		call  int
		name  string
		errno unix.Errno
	}{
		{unix.SYS_PIDFD_OPEN, "pidfd_open", unix.EPERM}, {unix.SYS_PIDFD_OPEN, "pidfd_open", unix.ENOSYS},
		{unix.SYS_PROCESS_VM_READV, "process_vm_readv", unix.EPERM}, {unix.SYS_PROCESS_VM_READV, "process_vm_readv", unix.ENOSYS},
		{unix.SYS_PROCESS_VM_WRITEV, "process_vm_writev", unix.EPERM},
	} {
		t.Run(fmt.Sprint(row.name, " ", row.errno), func(t *testing.T) {
			cmd := exec.Command(exe, "-test.run=^TestUnderSeccomp$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", seccompVariable, row.call, row.errno))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			lines := strings.Split(string(out), "\n")
			said := lines[max(0, slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "said ") }))]
			require.Contains(t, said, unix.ErrnoName(row.errno)+": the device may not call "+row.name)
			require.Contains(t, said, "seccomp")
			require.NotContains(t, said, "Yama")
			require.NotContains(t, said, "there is none")
		})
	}
	p := &process.Process{Pid: os.Getpid()}
	require.Contains(t, p.Why(unix.EPERM, false), "Yama", "here the call is allowed")
	for scope, want := range map[string]string{
		"": "Yama does not restrict it here", "0": "AppArmor", "1": "PR_SET_PTRACER", "2": "is 2: only root", "3": "nobody if it is 3",
	} {
		require.Contains(t, process.WhyNoTrace(scope), want, scope)
	}
	require.ErrorContains(t, process.WhyNoPidfd(unix.ESRCH), "no process has that pid")
}
