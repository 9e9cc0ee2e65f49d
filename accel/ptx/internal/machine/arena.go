package machine

import (
	"fmt"
	"math"

	"github.com/edsrzf/mmap-go"
)

// chunk is how many bytes an arena takes from the system at least: 64 blocks with 48 KiB of shared memory.
const chunk = 4 << 20

// pageBytes is what the system's memory begins at a multiple of, at least.
const pageBytes = 4096

// An Arena is memory that grids have while they are executed. It is no memory of Go's, because programs have
// its addresses as numbers. One grid at a time uses it.
type Arena struct {
	chunks []mmap.MMap // the last one is in use
	used   int64       // bytes of it
}

// Allocate returns memory, whose bytes may have any values. align is a power of two.
func (a *Arena) Allocate(size, align int64) (address uint64, bytes []byte, err error) {
	if size < 0 || size > math.MaxInt64/2 || align > math.MaxInt64/4 {
		return 0, nil, fmt.Errorf("%d bytes cannot be allocated", size)
	}
	last := len(a.chunks) - 1
	if last >= 0 {
		a.used = aligned(a.chunks[last], a.used, align)
	}
	if last < 0 || a.used > int64(len(a.chunks[last]))-size {
		room := size + max(0, align-pageBytes) // a chunk begins at a page
		m, err := mmap.MapRegion(nil, int(max(room, chunk)), mmap.RDWR, mmap.ANON, 0)
		if err != nil {
			return 0, nil, fmt.Errorf("%d bytes for a grid: %w", size, err)
		}
		a.chunks = append(a.chunks, m)
		last++
		a.used = aligned(m, 0, align)
	}
	b := a.chunks[last][a.used : a.used+size : a.used+size]
	a.used += size
	return AddressOf(b), b, nil
}

// aligned returns the first offset in a chunk, from one on, whose address is a multiple of align.
func aligned(chunk mmap.MMap, offset, align int64) int64 {
	first := int64(AddressOf(chunk))
	return (first+offset+align-1)&^(align-1) - first
}

// Reset takes all memory back, and keeps the largest piece for the next grid.
func (a *Arena) Reset() error {
	a.used = 0
	var failed error
	for len(a.chunks) > 1 {
		small := 0
		if len(a.chunks[0]) > len(a.chunks[1]) {
			small = 1
		}
		if err := a.chunks[small].Unmap(); err != nil && failed == nil {
			failed = err
		}
		a.chunks = append(a.chunks[:small], a.chunks[small+1:]...)
	}
	return failed
}

// Close gives all memory back to the system.
func (a *Arena) Close() error {
	err := a.Reset()
	for _, c := range a.chunks {
		if e := c.Unmap(); e != nil && err == nil {
			err = e
		}
	}
	a.chunks = nil
	return err
}
