package engine

import (
	"encoding/binary"
	"syscall"

	"github.com/nicless/nicless/internal/procmem"
	"golang.org/x/sys/unix"
)

// The kernel finds the process whose memory it copies by number. But a process keeps
// its number when it executes another program, and the number may go to a stranger when
// the process has ended: keys of the old memory would be keys of what is there now. So
// the process has a guard: a page of its own, at an address that nothing else has, with
// 8 bytes that it chose. Each call of the kernel begins with it. The kernel looks the
// number up once in a call and goes through the addresses in order, so that where the
// guard is missing it copies nothing. No moment is left in between.

// A Guard says where a process has its 8 bytes and which they are, in its own byte
// order.
type Guard struct{ Addr, Cookie uint64 }

const guardSize = 8

type guard struct {
	at    procmem.Vec // in the process
	bytes [guardSize]byte
}

// guardSeen is what was found at a guard: scratch space of the reader.
type guardSeen [guardSize]byte

func newGuard(g Guard) guard {
	x := guard{at: procmem.Vec{Addr: g.Addr, Len: guardSize}}
	binary.NativeEndian.PutUint64(x.bytes[:], g.Cookie)
	return x
}

// read copies from the process, as procmem.Read does. Of both lists the first
// vector is free: it becomes the guard's.
func (p *process) read(seen *guardSeen, to, from []procmem.Vec) (int, syscall.Errno) {
	if p.gone.Load() != present {
		return 0, unix.ESRCH
	}
	to[0], from[0] = procmem.VecOf(seen[:]), p.guard.at
	n, errno := procmem.Read(p.pid, to, from)
	if errno == 0 && *seen != p.guard.bytes {
		n = 0
	}
	return p.behindGuard(n, len(from), errno)
}

// write copies to the process likewise. What goes to the guard is what is there.
func (p *process) write(from, to []procmem.Vec) (int, syscall.Errno) {
	if p.gone.Load() != present {
		return 0, unix.ESRCH
	}
	from[0], to[0] = procmem.VecOf(p.guard.bytes[:]), p.guard.at
	n, errno := procmem.Write(p.pid, from, to)
	return p.behindGuard(n, len(to), errno)
}

// behindGuard returns how much of what a call has copied lies behind the guard.
func (p *process) behindGuard(n, vecs int, errno syscall.Errno) (int, syscall.Errno) {
	switch {
	case errno == unix.EFAULT, errno == 0 && n < guardSize:
		p.gone.CompareAndSwap(present, replaced)
		return 0, unix.ESRCH
	case errno != 0:
		return 0, errno
	case n == guardSize && vecs > 1:
		return 0, unix.EFAULT
	}
	return n - guardSize, 0
}
