//go:build linux

package shm

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reserve makes Close keep the addresses of the region until Release. Close then frees the
// memory and maps private pages of zeros at the addresses. A goroutine that still reads or
// writes there finds zeros; without Reserve it would fault, which ends the program. Each
// call of Reserve needs one call of Release.
func (r *Region) Reserve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved++
}

// Release ends one Reserve. After the last Release the addresses are freed: at once if the
// region is closed, otherwise by Close.
func (r *Region) Release() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved = max(r.reserved-1, 0)
	if r.reserved > 0 || r.mem != nil || r.maps == nil {
		return nil
	}
	return r.maps.Unmap() // sets r.maps to nil
}

// hollow puts private pages of zeros in place of the memory. They take no
// memory before they are written to.
func hollow(mem []byte) error {
	at := unsafe.Pointer(unsafe.SliceData(mem))
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE | unix.MAP_FIXED
	if _, err := unix.MmapPtr(-1, 0, at, uintptr(len(mem)), unix.PROT_READ|unix.PROT_WRITE,
		flags); err != nil {
		return fmt.Errorf("shm: reserve %d bytes: %w", len(mem), err)
	}
	return nil
}
