//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/procmem"
	"golang.org/x/sys/unix"
)

// Charge is the charge for the use of a process's memory.
var Charge = quota.Charge{quota.Descriptors: 1}

// A Process is a client's program. Its memory can be registered although the device has not
// mapped it, for example memory that the program got from malloc. The kernel copies bytes to
// and from that memory, by process_vm_readv and process_vm_writev. Transfers of such memory
// are in execution/unmapped.go.
type Process struct {
	Pid   int
	Life  *os.File // pidfd, which shows when the process has ended
	guard guard
	Gone  atomic.Uint32 // Present, ended or Replaced; unless it is Present, another process may have the pid
}

const (
	Present  = iota
	ended    // the pidfd says that the process has ended
	Replaced // the guard is missing: another program has the pid
)

// Open checks that the device may use memory of a process for a client of user uid.
// It then starts to watch for the end of the process.
func Open(pid int, uid uint32, g nic.Guard) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, WhyNoPidfd(err)
	}
	p := &Process{Pid: pid, Life: os.NewFile(uintptr(fd), "nicless:process"), guard: newGuard(g)}
	if err := p.check(uid); err != nil {
		_ = p.Life.Close()
		return nil, err
	}
	go p.watch()
	return p, nil
}

// check refuses a process whose memory the device may not use. Reading the guard shows
// whether the kernel allows the use, and whether the pid still belongs to the same program.
func (p *Process) check(uid uint32) error {
	me := os.Geteuid()
	if int(uid) != me {
		return fmt.Errorf("its client runs as user %d, the device as user %d; they must be the same", uid, me)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", p.Pid), &st); err != nil {
		return fmt.Errorf("owner of the process: %w", err)
	}
	if int(st.Uid) != me {
		return fmt.Errorf("it runs as user %d, the device as user %d; they must be the same", st.Uid, me)
	}
	if _, errno := p.Read(new(Seen), make([]procmem.Vec, 1), make([]procmem.Vec, 1)); errno != 0 {
		return fmt.Errorf("its memory cannot be read: %s", p.Why(errno, false))
	}
	return nil
}

// watch waits until the process ends or the device closes the pidfd.
func (p *Process) watch() {
	conn, err := p.Life.SyscallConn()
	if err != nil {
		return
	}
	over := func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	}
	if conn.Read(over) == nil {
		p.Gone.CompareAndSwap(Present, ended)
	}
}

// CheckRange refuses to register a range that has no memory at its first or its last byte.
// A hole between them, or one that is made after the registration, is noticed only when a
// transfer uses it.
func (p *Process) CheckRange(addr, n uint64) error {
	seen, b := new(Seen), make([]byte, 1)
	for _, at := range [...]uint64{addr, addr + n - 1} {
		if _, errno := p.Read(seen, []procmem.Vec{{}, procmem.VecOf(b)},
			[]procmem.Vec{{}, {Addr: at, Len: 1}}); errno != 0 {
			return control.Errorf(control.CodeMemory, "memory region: %d bytes at %#x of process %d: at %#x: %s", n, addr, p.Pid, at, p.Why(errno, false))
		}
	}
	runtime.KeepAlive(b)
	return nil
}
