//go:build linux

package shm

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Join returns a region that has the pages of all parts, one part after the other: each byte is that of its
// part, not a copy. A part is whole pages of a region that is sealed and not of Heap. It may be closed before
// the new region is, which keeps the pages. The new region has no File.
func Join(parts ...[]byte) (*Region, error) {
	size := 0
	for _, b := range parts {
		if len(b) == 0 || len(b)%PageSize != 0 || address(b)%PageSize != 0 {
			return nil, fmt.Errorf("shm: join %d bytes at %#x: whole pages of %d are needed", len(b), address(b), PageSize)
		}
		size += len(b)
	}
	if size < 1 || uint64(size) > MaxRegion {
		return nil, fmt.Errorf("shm: region of %d bytes; 1 to %d are possible", size, uint64(MaxRegion))
	}
	m, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("shm: reserve %d bytes: %w", size, err)
	}
	at := unsafe.Pointer(unsafe.SliceData(m))
	for _, b := range parts {
		// An old size of 0 leaves the old pages where they are. The kernel refuses that for memory that is
		// not shared.
		if _, err := unix.MremapPtr(unsafe.Pointer(unsafe.SliceData(b)), 0, at, uintptr(len(b)),
			unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
			return nil, errors.Join(fmt.Errorf("shm: join %d bytes: %w", len(b), err), unix.Munmap(m))
		}
		at = unsafe.Add(at, len(b))
	}
	return &Region{mem: m[:size:size], maps: m, sealed: true, more: len(parts) - 1}, nil
}
