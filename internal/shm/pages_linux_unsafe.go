//go:build linux

package shm

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// prefaultBytes is how much of a buffer Prefault considers, from its beginning.
const prefaultBytes = 4 << 20

// Prefault enters the existing pages of b into this process's page table, so that the first
// touch of a page does not wait for the kernel. It leaves out pages that do not exist yet,
// because a touch would allocate such a page and charge it to this process. b must be in the
// region. Prefault only saves time, so it reports no errors.
func (r *Region) Prefault(b []byte) {
	off, ok := r.Offset(b)
	if !ok || r.maps == nil {
		return
	}
	first := off &^ (PageSize - 1)
	last := min((off+uint64(min(len(b), prefaultBytes))+PageSize-1)&^(PageSize-1), uint64(len(r.mem)))
	pages := r.mem[first:last]
	there := make([]byte, len(pages)/PageSize)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&pages[0])), uintptr(len(pages)),
		uintptr(unsafe.Pointer(&there[0])))
	if errno != 0 {
		return
	}
	for i := 0; i < len(there); {
		n := 0
		for i+n < len(there) && there[i+n]&1 == there[i]&1 {
			n++
		}
		if there[i]&1 != 0 {
			_ = unix.Madvise(pages[i*PageSize:(i+n)*PageSize], unix.MADV_POPULATE_WRITE)
		}
		i += n
	}
}

// Populate allocates the pages of b, which must be in the region. Then no first touch waits
// for a page. A lack of memory is an error of this call; without Populate it would be a signal
// at the first touch.
func (r *Region) Populate(b []byte) error {
	off, ok := r.Offset(b)
	if !ok || r.maps == nil {
		return nil
	}
	first, last := off&^(PageSize-1), min((off+uint64(len(b))+PageSize-1)&^(PageSize-1), uint64(len(r.mem)))
	err := unix.Madvise(r.mem[first:last], unix.MADV_POPULATE_WRITE)
	if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: Linux before 5.14
		return fmt.Errorf("shm: %d bytes of memory: %w", len(b), err)
	}
	return nil
}
