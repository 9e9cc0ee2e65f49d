//go:build linux && (amd64 || arm64)

package verbs

import (
	"log/slog"
	"slices"

	"golang.org/x/sys/unix"
)

// Registered memory is moved into shared memory if the difference cannot be noticed, except by
// the speed. Other memory stays where it is, and the kernel copies it for the engine. A page is
// not moved while it belongs to memory that the kernel copies: during the move a copy to the
// page could fail.

// An ownRange is a range of a process's memory that is registered and stays where it is.
type ownRange struct{ addr, n uint64 }

// addCopied notes that the kernel copies a range.
func (m *memory) addCopied(s ownRange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copied = append(m.copied, s)
}

// removeCopied undoes one call of addCopied.
func (m *memory) removeCopied(s ownRange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.copied, s); i >= 0 {
		m.copied = slices.Delete(m.copied, i, i+1)
	}
}

// copiesFrom reports whether the kernel copies some of the n bytes from addr on.
func (m *memory) copiesFrom(addr, n uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.copied, func(s ownRange) bool {
		// Differences of numbers without sign: the first is below the second.
		return addr-s.addr < s.n || s.addr-addr < n
	})
}

// move asks the shim to move an area of registered memory into shared memory. It returns
// errAgain, or the reason why the memory stays where it is.
func (c *call) move(a area) error {
	lo, size := a.pages()
	if e := c.p.memory.taken(lo, size); e != nil {
		return refuse(eBUSY, "a part of its pages, from %#x on, is in another piece of shared memory that is in use", e.addr)
	}
	if c.p.memory.copiesFrom(lo, size) {
		return refuse(eBUSY, "a part of its pages is registered already and stays where it is")
	}
	if slices.ContainsFunc(c.results, func(r wireResult) bool { return isRemap(r.kind) && r.addr == lo }) {
		return refuse(eBUSY, "its pages were moved, and are not there")
	}
	if err := c.requestRemap(a, needTryRemap); err != nil {
		return err
	}
	return errAgain
}

// maxBack is how many ranges one answer can ask for.
const maxBack = 64

// giveBack asks the shim to make pages of the heap the program's own again if they are not in use
// any more. The program may free them next, and malloc must not have data of its own in moved
// pages (shim/heap.c). Pages that are registered again are left out, which is possible if another
// process has destroyed the object that used them. Pages that the kernel copies for another region
// wait until that has ended, because what a transfer stores meanwhile would be lost.
func (c *call) giveBack() {
	m := c.p.memory
	m.mu.Lock()
	n := min(len(m.unused), maxBack)
	unused := slices.Clone(m.unused[:n])
	m.unused = slices.Delete(m.unused, 0, n)
	m.mu.Unlock()
	var later []ownRange
	for _, u := range unused {
		switch {
		case m.copiesFrom(u.addr, u.n):
			later = append(later, u)
		case m.taken(u.addr, u.n) == nil:
			c.outs = append(c.outs, wireOut{kind: outBack, value: u.addr, bytes: le.AppendUint64(nil, u.n)})
		}
	}
	m.mu.Lock()
	m.unused = append(m.unused, later...)
	m.mu.Unlock()
}

// stays logs why memory that is registered stays where it is.
func (c *call) stays(a area, why error) {
	r := refusalOf(why)
	c.p.s.report(c.p.uid, &c.p.lines, slog.LevelDebug, "verbs memory not moved", "program", c.p.name,
		"addr", a.addr, "bytes", a.n, "why", r.text)
	if more, ok := c.p.explained.spend(); ok {
		c.p.s.watched.send(c.p.lineage, c.p.uid, "memory region of %d bytes at %#x stays where it is, so the kernel copies its bytes, which is slower: %s%s", a.n, a.addr, r.text, more)
	}
}

// whyNotMoved explains the errno of a failed move (shim/movable.c, shim/remap.c).
func whyNotMoved(errno unix.Errno) string {
	switch errno {
	case unix.EBUSY:
		return "they belong to the stack of a thread, or to thread-local data"
	case unix.EADDRINUSE:
		return "malloc may have data of its own in these pages; whole pages from posix_memalign, large blocks, and memory from mmap or nicless_buffer can be moved"
	case unix.ETXTBSY:
		return "something else has pinned memory of the program (VmPin in /proc/PID/status), for example io_uring"
	case unix.EXDEV:
		return "the program uses a GPU, whose driver may have pinned them"
	case unix.EADDRNOTAVAIL:
		return "the driver of a GPU has pinned them; make the umem or the queue first and register its memory with CUDA (cudaHostRegister) afterwards, unregister it before the next umem, or take memory of nicless_buffer"
	case unix.EOPNOTSUPP:
		return "they are not private memory that can be read and written, or there is no userfaultfd, without which stores of other threads could be lost"
	}
	return errno.Error()
}
