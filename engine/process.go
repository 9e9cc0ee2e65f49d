//go:build linux && (amd64 || arm64)

package engine

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

// A process is a client's program. Its memory can be registered although the device has not
// mapped it, for example memory that the program got from malloc. The kernel copies bytes to
// and from that memory, by process_vm_readv and process_vm_writev. Transfers of such memory
// are in unmapped.go.
type process struct {
	pid   int
	life  *os.File // pidfd
	guard guard
	gone  atomic.Uint32 // present, ended or replaced; if not present, another process may have the pid
	all   region        // the region of all keys of this process's memory; it covers every address of the process
}

const (
	present  = iota
	ended    // the pidfd says so
	replaced // the guard is missing: another program has the pid
)

var processCharge = quota.Charge{quota.Descriptors: 1}

// ShareProcess says that memory which the client registers outside its regions, from now
// on, is memory of a process. Rings and records still need a region. The caller knows from
// the kernel that the process is the client's (SO_PEERCRED). The device must be allowed to
// trace the process: by uid and, with Yama, by PR_SET_PTRACER.
//
// A process of another user is refused even where the device could trace it. Such a process
// could hold up the device with a page fault whose handling it controls (FUSE,
// userfaultfd). Processes of the device's own user can hold up the device anyway.
//
// A client of another user is refused too, whoever owns the process now. After the client
// connected, its process may have executed a program that runs as the device's user, or may
// have ended, so that such a program could get its pid.
//
// The guard identifies the program whose memory it is. A pid alone does not identify it.
func (c *caller) ShareProcess(pid int, g nic.Guard) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.process != nil && c.process.pid == pid:
		return nil
	case c.process != nil:
		return control.Errorf(control.CodeInvalid, "process %d: this client's memory is that of process %d", pid, c.process.pid)
	}
	if err := c.e.ledger.Take(c.uid, processCharge); err != nil {
		return err
	}
	p, err := openProcess(pid, c.uid, g)
	if err != nil {
		c.e.ledger.Refund(c.uid, processCharge)
		return control.Errorf(control.CodeMemory, "process %d: %v", pid, err)
	}
	between := make([]byte, unmappedBytes*len(c.e.shards))
	c.e.doWith(noWork, func() {
		c.process = p
		for i, sh := range c.e.shards {
			if sh.scratch.unmapped.between == nil {
				sh.scratch.unmapped.between = between[i*unmappedBytes:][:unmappedBytes]
			}
		}
	})
	return nil
}

// openProcess checks that the device may use memory of a process for a client of user uid.
// It then starts to watch for the end of the process.
func openProcess(pid int, uid uint32, g nic.Guard) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, whyNoPidfd(err)
	}
	p := &process{pid: pid, life: os.NewFile(uintptr(fd), "nicless:process"), guard: newGuard(g), all: region{size: ^uint64(0)}}
	if err := p.check(uid); err != nil {
		_ = p.life.Close()
		return nil, err
	}
	go p.watch()
	return p, nil
}

// check refuses a process whose memory the device may not use. Reading the guard shows
// whether the kernel allows the use, and whether the pid still belongs to the same program.
func (p *process) check(uid uint32) error {
	me := os.Geteuid()
	if int(uid) != me {
		return fmt.Errorf("its client runs as user %d, the device as user %d; they must be the same", uid, me)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", p.pid), &st); err != nil {
		return fmt.Errorf("owner of the process: %w", err)
	}
	if int(st.Uid) != me {
		return fmt.Errorf("it runs as user %d, the device as user %d; they must be the same", st.Uid, me)
	}
	if _, errno := p.read(new(guardSeen), make([]procmem.Vec, 1), make([]procmem.Vec, 1)); errno != 0 {
		return fmt.Errorf("its memory cannot be read: %s", p.why(errno, false))
	}
	return nil
}

// watch waits until the process ends or closeProcess closes the pidfd.
func (p *process) watch() {
	conn, err := p.life.SyscallConn()
	if err != nil {
		return
	}
	over := func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	}
	if conn.Read(over) == nil {
		p.gone.CompareAndSwap(present, ended)
	}
}

// closeProcess releases the client's process. No key refers to the process any more.
func (c *caller) closeProcess() {
	p := c.process
	if p == nil {
		return
	}
	c.process = nil
	c.after = append(c.after, func() {
		_ = p.life.Close()
		c.e.ledger.Refund(c.uid, processCharge)
	})
}

// checkRange refuses to register a range that has no memory at its first or its last byte.
// A hole between them, or one that is made after the registration, is noticed only when a
// transfer uses it.
func (p *process) checkRange(addr, n uint64) error {
	seen, b := new(guardSeen), make([]byte, 1)
	for _, at := range [...]uint64{addr, addr + n - 1} {
		if _, errno := p.read(seen, []procmem.Vec{{}, procmem.VecOf(b)}, []procmem.Vec{{}, {Addr: at, Len: 1}}); errno != 0 {
			return control.Errorf(control.CodeMemory, "memory region: %d bytes at %#x of process %d: at %#x: %s", n, addr, p.pid, at, p.why(errno, false))
		}
	}
	runtime.KeepAlive(b)
	return nil
}
