//go:build linux && (amd64 || arm64)

package object

import (
	"syscall"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/internal/shm"
)

// A Stretch is contiguous bytes, either in the device's mapping or unmapped.
type Stretch struct {
	Mem     []byte
	Process *process.Process // nil: the bytes are mapped
	Addr    uint64           // if Process is not nil: address of the bytes in that process
	N       uint64
}

// Address returns the address of the bytes in their process, or in that of the device.
func (s *Stretch) Address() uint64 {
	if s.Process == nil {
		return procmem.VecOf(s.Mem).Addr
	}
	return s.Addr
}

// Aligned reports whether the stretch is a word of size bytes at a multiple of size.
func (s *Stretch) Aligned(size int) bool {
	if s.N != uint64(size) {
		return false
	}
	if s.Process != nil {
		return s.Addr%s.N == 0
	}
	return shm.Aligned(s.Mem)
}

// Holds reports whether the n bytes that begin at addr are inside the key's own memory,
// mapped or unmapped. A list has no memory of its own.
func (k *Mkey) Holds(addr, n uint64) bool {
	if k.Process == nil {
		_, ok := k.Span(addr, n)
		return ok
	}
	off := addr - k.Base
	return off <= k.Size && n <= k.Size-off
}

// Stretch returns the n bytes of the key that begin at addr. The key must hold them.
func (k *Mkey) Stretch(addr, n uint64) Stretch {
	if k.Process != nil {
		return Stretch{Process: k.Process, Addr: k.From + (addr - k.Base), N: n}
	}
	mem, _ := k.Span(addr, n)
	return Stretch{Mem: mem, N: n}
}

// Peek returns the next contiguous bytes of the list, at least one and at most n, and does not
// advance. It is the method Next for lists with unmapped memory.
func (l *List) Peek(n uint64) Stretch {
	for l.Off == l.Piece[l.Current].N {
		l.Current++
		l.Off = 0
	}
	p := &l.Piece[l.Current]
	n = min(n, p.N-l.Off)
	switch {
	case p.Mem != nil:
		return Stretch{Mem: p.Mem[l.Off:][:n], N: n}
	case p.Key.Process != nil:
		return Stretch{Process: p.Key.Process, Addr: p.Key.From + p.off + l.Off, N: n}
	}
	if l.Off == 0 {
		l.Spot = p.Key.Seek(p.off)
	}
	r, s := &p.Key.List[l.Spot.run], l.Spot
	return r.Found.Stretch(r.Addr+s.round*r.Stride+s.off, min(n, r.N-s.off))
}

// Collect fills vecs with the next stretches of the list, of at most n bytes together.
// These stretches are all mapped or all of one process; Collect stops before any other stretch.
// first is the first stretch. The list's position does not change.
func (l *List) Collect(vecs []procmem.Vec, n uint64) (first Stretch, used []procmem.Vec, total uint64) {
	at, off, spot := l.Current, l.Off, l.Spot
	for total < n && len(used) < len(vecs) {
		s := l.Peek(n - total)
		if total == 0 {
			first = s
		} else if s.Process != first.Process {
			break
		}
		used = vecs[:len(used)+1]
		used[len(used)-1] = procmem.Vec{Addr: s.Addr, Len: s.N}
		if s.Process == nil {
			used[len(used)-1] = procmem.VecOf(s.Mem)
		}
		total += s.N
		l.Advance(int(s.N))
	}
	l.Current, l.Off, l.Spot = at, off, spot
	return first, used, total
}

// Skip advances the list's position by n bytes. It takes a step for each piece of the WQE, not for each
// run of a list: a message under way may have a billion runs of one byte.
func (l *List) Skip(n uint64) {
	for n > 0 {
		p := &l.Piece[l.Current]
		if l.Off == p.N {
			l.Current++
			l.Off = 0
			continue
		}
		k := min(n, p.N-l.Off)
		l.Off += k
		n -= k
		if p.Mem == nil && len(p.Key.List) > 0 && l.Off < p.N {
			l.Spot = p.Key.Seek(p.off + l.Off)
		}
	}
}

// Gap returns the gap that an access to the stretch has found. source says that the stretch is in the
// job's source, write that it was to be written.
func (s Stretch) Gap(errno syscall.Errno, source, write bool) Gap {
	return Gap{s.Process, s.Addr, errno, source, write}
}

// Why explains which access was not possible.
func (g Gap) Why() Reason {
	what := "read"
	if g.Write {
		what = "written"
	}
	return Because(codes.ProcessMemory, "memory at %#x of process %d cannot be %s: %s", g.Addr, g.Process.Pid, what, g.Process.Why(g.Errno, g.Write))
}
