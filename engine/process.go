package engine

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/procmem"
	"golang.org/x/sys/unix"
)

// A process is memory of a client that the device has not mapped: a program
// registers what it got from malloc. The kernel copies it, by
// process_vm_readv and process_vm_writev. What that looks like in a transfer is
// in away.go.
type process struct {
	pid   int
	life  *os.File // pidfd
	guard guard
	gone  atomic.Uint32 // as what; its number may be somebody else's soon
	all   region        // stands for its whole memory in keys
}

// What has become of a process.
const (
	present  = iota
	ended    // says the kernel
	replaced // something else answers to its number
)

var processBill = bill{descriptors: 1}

// ShareProcess says that memory which the client registers outside its regions,
// from now on, is that of a process. Rings and records still need a region. The
// caller knows from the kernel that the process is the client's (SO_PEERCRED),
// and it must be allowed to trace it: by uid and, with Yama, by PR_SET_PTRACER.
//
// A process of another user is refused even where the device could trace it: a
// page fault of its making (FUSE, userfaultfd) holds the device up, which among
// processes of one user is no more than they can do anyway. So is a client of
// another user, whosever the process is: since it connected, its process may have
// executed a program that runs as the device's user, or ended and left its number
// to one.
//
// The guard says which memory of that number is meant.
func (c *Client) ShareProcess(pid int, g Guard) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.process != nil && c.process.pid == pid:
		return nil
	case c.process != nil:
		return control.Errorf(control.CodeInvalid, "process %d: this client's memory is that of process %d", pid, c.process.pid)
	}
	if err := c.e.shares.take(c.uid, processBill); err != nil {
		return err
	}
	p, err := openProcess(pid, c.uid, g)
	if err != nil {
		c.e.shares.give(c.uid, processBill)
		return control.Errorf(control.CodeMemory, "process %d: %v", pid, err)
	}
	between := make([]byte, unmappedBytes*len(c.e.shards))
	c.e.Do(func() {
		c.process = p
		for i, l := range c.e.shards {
			if l.scratch.unmapped.between == nil {
				l.scratch.unmapped.between = between[i*unmappedBytes:][:unmappedBytes]
			}
		}
	})
	return nil
}

// openProcess makes sure that memory of a process can be reached for a user's
// client, and watches for its end.
func openProcess(pid int, uid uint32, g Guard) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, whyNoPidfd(err)
	}
	p := &process{pid: pid, life: os.NewFile(uintptr(fd), "nicless:process"), guard: newGuard(g), all: region{size: ^uint64(0)}}
	if err := p.allowed(uid); err != nil {
		_ = p.life.Close()
		return nil, err
	}
	go p.watch()
	return p, nil
}

// allowed says why the device may not use the memory of a process. The guard shows
// whether the kernel lets it, and whether it is still the process that is meant.
func (p *process) allowed(uid uint32) error {
	me := os.Geteuid()
	if int(uid) != me {
		return fmt.Errorf("its client is user %d's, the device runs as user %d; they must be one", uid, me)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", p.pid), &st); err != nil {
		return fmt.Errorf("whose it is: %w", err)
	}
	if int(st.Uid) != me {
		return fmt.Errorf("it is user %d's, the device runs as user %d; they must be one", st.Uid, me)
	}
	if _, errno := p.read(new(guardSeen), make([]procmem.Vec, 1), make([]procmem.Vec, 1)); errno != 0 {
		return fmt.Errorf("its memory cannot be read: %s", p.why(errno, false))
	}
	return nil
}

// watch waits for the end of the process, or of the client.
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

// closeProcess lets go of the client's process. No key refers to it any more.
func (c *Client) closeProcess() {
	p := c.process
	if p == nil {
		return
	}
	c.process = nil
	c.after = append(c.after, func() {
		_ = p.life.Close()
		c.e.shares.give(c.uid, processBill)
	})
}

// has reports whether there is memory at both ends of a range, which is judged
// when it is registered; what lies between, and what becomes of it, is seen when
// it is used.
func (p *process) has(addr, n uint64) error {
	seen, b := new(guardSeen), make([]byte, 1)
	for _, at := range [...]uint64{addr, addr + n - 1} {
		if _, errno := p.read(seen, []procmem.Vec{{}, procmem.VecOf(b)}, []procmem.Vec{{}, {Addr: at, Len: 1}}); errno != 0 {
			return control.Errorf(control.CodeMemory, "memory region: %d bytes at %#x of process %d: at %#x: %s", n, addr, p.pid, at, p.why(errno, false))
		}
	}
	return nil
}
