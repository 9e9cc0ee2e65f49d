package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// PageSize is the unit of a region's size in bytes. Sizes are rounded up to a multiple of it.
const PageSize = 4096

// MaxRegion is the largest region, in bytes: 1 TiB.
const MaxRegion = 1 << 40

// ErrClosed reports a region used after Close.
var ErrClosed = errors.New("shm: region is closed")

// A Region is a range of memory that two sides map. The zero Region is not usable; Create,
// Attach and Heap make one. Any number of goroutines may use its bytes until Close.
type Region struct {
	mem  []byte
	file *os.File // nil for heap memory
	maps mapping  // nil for heap memory
	more int      // mappings of the kernel after the first one; see Join

	mu       sync.Mutex // guards the fields below and file, and makes calls of Close wait for each other
	sealed   bool       // sealed against holes; see Seal
	reserved int        // calls of Reserve without a Release so far; above 0, Close keeps the addresses
	held     hold       // keeps the kernel from making huge pages of the memory
}

// Heap returns a region of ordinary garbage-collected memory, which only this process can
// use. The race detector sees accesses to such memory; it does not see those to mapped memory.
func Heap(size int) (*Region, error) {
	size, err := roundUp(size)
	if err != nil {
		return nil, err
	}
	raw := make([]byte, size+PageSize)
	skip := int(-address(raw) & (PageSize - 1))
	return &Region{mem: raw[skip : skip+size : skip+size]}, nil
}

// Bytes returns all bytes of the region. After Close it returns nil, and slices that it has
// returned before must not be used.
func (r *Region) Bytes() []byte { return r.mem }

// Size returns the region's size in bytes, a multiple of PageSize.
func (r *Region) Size() int { return len(r.mem) }

// Mappings returns how many mappings of the kernel the region has, of which a process can have some 65,000
// (vm.max_map_count): one for each part of Join, otherwise 1.
func (r *Region) Mappings() int { return 1 + r.more }

// Addr returns the virtual address of the first byte in this process.
func (r *Region) Addr() uint64 { return address(r.mem) }

// File returns the file of the region. It returns nil for heap memory, and after CloseFile or
// Close. The region still owns the file.
func (r *Region) File() *os.File {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file
}

// Offset returns the offset of b in the region. ok is false if b is not wholly in the region.
func (r *Region) Offset(b []byte) (off uint64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	off = address(b) - address(r.mem)
	return off, off < uint64(len(r.mem)) && uint64(len(b)) <= uint64(len(r.mem))-off
}

// Close unmaps the region and closes its descriptor. No goroutine may touch its bytes afterwards,
// unless the region is reserved (see Reserve). A second call does nothing.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := r.mem == nil
	r.mem = nil // a later call of Bytes must not return addresses that may be mapped again for something else
	var errs [2]error
	r.held.release()
	if r.maps != nil {
		if r.reserved == 0 || !gone && hollow(r.maps) != nil {
			errs[0] = r.maps.Unmap() // sets r.maps to nil
		}
	}
	if r.file != nil {
		errs[1] = r.file.Close()
		r.file = nil
	}
	return errors.Join(errs[:]...)
}

// roundUp returns the size of a region with room for size bytes: whole pages.
func roundUp(size int) (int, error) {
	if size < 1 || uint64(size) > MaxRegion {
		return 0, fmt.Errorf("shm: region of %d bytes; 1 to %d are possible", size, uint64(MaxRegion))
	}
	return (size + PageSize - 1) &^ (PageSize - 1), nil
}
