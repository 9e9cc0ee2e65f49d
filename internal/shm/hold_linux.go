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

// A process that maps memory can make the kernel collapse aligned pieces of it into huge
// pages (MADV_COLLAPSE, Linux 6.1). For that the kernel locks all pages of a piece, removes
// them from all page tables and copies them. If the calling thread has a low priority and a
// busy core, it is preempted meanwhile. Other threads that touch the piece then wait until
// the calling thread runs again; waits of 0.6 s were seen. The kernel does not collapse a
// piece if one of its pages has an additional reference. So a pipe that is never read holds
// one page of each piece.

// A hold has the read ends of pipes that are full of references to pages. The write ends are
// closed.
type hold []int

// pipeSlots is how many references one pipe holds. It is the number for a pipe of 1 MiB, the
// default of fs.pipe-max-size.
const pipeSlots = 256

// hugePage is the size of a huge page, in bytes.
var hugePage = func() int {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if n, err2 := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil && err2 == nil && n >= PageSize {
		return n
	}
	return 2 << 20
}()

// collapses reports whether the kernel makes huge pages of shared memory when a process asks
// for them. If the file shmem_enabled does not exist, the kernel has no huge pages. If the file
// says deny, the kernel refuses.
func collapses() bool {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
	return err == nil && !bytes.Contains(b, []byte("[deny]"))
}

// HoldCost returns how many descriptors and how many pages of pipes an open region of this
// size takes for protection against huge pages.
func HoldCost(size int) (descriptors, pipePages int) {
	for left := size / hugePage; left > 0; left -= pipeSlots {
		descriptors++
		pipePages += slotsFor(left)
	}
	return descriptors, pipePages
}

// HoldBytes returns how many bytes of memory the protection against huge pages takes for an open region
// of this size that was not touched: one page of each piece, and a page for the page table that has it.
func HoldBytes(size int) int { return size / hugePage * 2 * PageSize }

// slotsFor returns how many slots a pipe for n references gets. If n is larger than pipeSlots,
// the pipe gets slots for pipeSlots references.
func slotsFor(n int) int { return max(16, 1<<bits.Len(uint(min(n, pipeSlots)-1))) }

// take holds one page of each piece of mem. mem begins at offset 0 of a file.
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

// fill makes another pipe, which holds the first page of each of the first n pieces of mem.
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

// release ends the hold.
func (h *hold) release() {
	for _, fd := range *h {
		_ = unix.Close(fd)
	}
	*h = nil
}
