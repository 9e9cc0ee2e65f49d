//go:build linux && (amd64 || arm64)

package process

import (
	"encoding/binary"
	"syscall"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/procmem"
	"golang.org/x/sys/unix"
)

// The kernel finds the process whose memory it copies by the pid. But a process keeps its
// pid when it executes another program, and another process may get the pid when the first
// has ended. Keys of the old memory would then be keys of the new memory. So the process
// has a guard: 8 bytes that it chose, in a page that has only this use. Each system call
// copies the guard first. The kernel looks the pid up once in a call and copies in order,
// so it copies nothing where the guard is missing. There is no time between the check and
// the copy.

const guardSize = 8

type guard struct {
	at    procmem.Vec // where the guard is in the process's memory
	bytes [guardSize]byte
}

// Seen receives the bytes that a call reads at the guard's address.
type Seen [guardSize]byte

func newGuard(g nic.Guard) guard {
	x := guard{at: procmem.Vec{Addr: g.Addr, Len: guardSize}}
	binary.NativeEndian.PutUint64(x.bytes[:], g.Cookie)
	return x
}

// Read copies from the process, as procmem.Read does. The caller leaves the first vector of
// each list free, and Read sets these two vectors so that the call also copies the guard to seen.
func (p *Process) Read(seen *Seen, to, from []procmem.Vec) (int, syscall.Errno) {
	if p.Gone.Load() != Present {
		return 0, unix.ESRCH
	}
	to[0], from[0] = procmem.VecOf(seen[:]), p.guard.at
	n, errno := procmem.Read(p.Pid, to, from)
	if errno == 0 && *seen != p.guard.bytes {
		n = 0
	}
	return p.behindGuard(n, len(from), errno)
}

// Write copies to the process. Like Read, it sets the first vector of each list, here so that the
// call first writes the guard's own bytes to the guard, which thus stays the same.
func (p *Process) Write(from, to []procmem.Vec) (int, syscall.Errno) {
	if p.Gone.Load() != Present {
		return 0, unix.ESRCH
	}
	from[0], to[0] = procmem.VecOf(p.guard.bytes[:]), p.guard.at
	n, errno := procmem.Write(p.Pid, from, to)
	return p.behindGuard(n, len(to), errno)
}

// behindGuard returns how many bytes a call has copied after the guard's bytes. n and errno are the call's
// results, and vecs is how many vectors the call had. If the guard is missing, the process counts as
// replaced.
func (p *Process) behindGuard(n, vecs int, errno syscall.Errno) (int, syscall.Errno) {
	switch {
	case errno == unix.EFAULT, errno == 0 && n < guardSize:
		p.Gone.CompareAndSwap(Present, Replaced)
		return 0, unix.ESRCH
	case errno != 0:
		return 0, errno
	case n == guardSize && vecs > 1:
		return 0, unix.EFAULT
	}
	return n - guardSize, 0
}
