package shm

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A process that has mapped memory can have the kernel make a huge page of each piece
// of it that is as large as one (MADV_COLLAPSE, Linux 6.1). The kernel locks all pages
// of the piece, takes them out of all page tables and copies them. If the calling
// thread has a low priority and its core is busy, it is preempted in between, and other
// threads that touch the piece wait until it runs again: 0.6 s were seen. The kernel
// leaves pages alone to which a reference is held; so one page of each piece is held by
// a pipe that nobody reads.

// A hold is pipes full of references to pages. The write ends are closed.
type hold []int

// pipeSlots is how many references one pipe holds: those of a pipe of 1 MiB, as large
// as fs.pipe-max-size lets anybody make it.
const pipeSlots = 256

// hugePage is the size of such a piece.
var hugePage = func() int {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if n, err2 := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil && err2 == nil && n >= PageSize {
		return n
	}
	return 2 << 20
}()

// collapses reports whether the kernel makes huge pages of shared memory at somebody's
// request. Without the file it has none; where it says deny it does not.
func collapses() bool {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
	return err == nil && !bytes.Contains(b, []byte("[deny]"))
}

// HoldCost returns how many descriptors, and how many pages of pipes, a region of so
// many bytes takes while it is open, so that nobody can have huge pages made of it.
func HoldCost(size int) (descriptors, pipePages int) {
	for left := size / hugePage; left > 0; left -= pipeSlots {
		descriptors++
		pipePages += slotsFor(left)
	}
	return descriptors, pipePages
}

// slotsFor is how many slots a pipe gets for so many references, or for as many as fit.
func slotsFor(n int) int { return max(16, 1<<bits.Len(uint(min(n, pipeSlots)-1))) }

// take holds a page of each piece of mem, which begins with a file.
func (h *hold) take(mem []byte) error {
	if len(mem) < hugePage || !collapses() {
		return nil
	}
	for left := mem; len(left) >= hugePage; {
		n := min(len(left)/hugePage, pipeSlots)
		if err := h.fill(left, n); err != nil {
			h.release()
			return fmt.Errorf("shm: %d bytes: hold pages in a pipe (fs.pipe-user-pages-soft, RLIMIT_NOFILE; "+
				"or have root write deny to /sys/kernel/mm/transparent_hugepage/shmem_enabled): %w", len(mem), err)
		}
		left = left[n*hugePage:]
	}
	return nil
}

// fill holds the first pages of the n first pieces of mem, in one more pipe.
func (h *hold) fill(mem []byte, n int) error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	defer unix.Close(p[1])
	*h = append(*h, p[0])
	if size, err := unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, slotsFor(n)*PageSize); err != nil {
		return err
	} else if size < n*PageSize {
		return fmt.Errorf("a pipe of %d bytes; %d are needed", size, n*PageSize)
	}
	pages := make([]unix.Iovec, n)
	for i := range pages {
		pages[i].Base = &mem[i*hugePage]
		pages[i].SetLen(PageSize)
	}
	for len(pages) > 0 {
		got, err := unix.Vmsplice(p[1], pages, unix.SPLICE_F_NONBLOCK)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case got < PageSize || got%PageSize != 0:
			return fmt.Errorf("%d bytes of %d pages", got, len(pages))
		}
		pages = pages[got/PageSize:]
	}
	return nil
}

// release lets the pages go.
func (h *hold) release() {
	for _, fd := range *h {
		_ = unix.Close(fd)
	}
	*h = nil
}
