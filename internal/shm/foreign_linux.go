package shm

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Foreign is memory that somebody else made and sealed, of which nothing is
// mapped yet: it may be far larger than the part that is wanted, and address
// space is not endless.
type Foreign struct {
	fd   int
	size int
	page int // of this memory; they can be huge
}

// Inspect looks at a descriptor, which stays the caller's, and refuses it where
// Attach does. It does nothing that could wait for whoever sent it.
func Inspect(fd int) (Foreign, error) {
	size, page, err := check(fd, false)
	if err != nil {
		return Foreign{}, err
	}
	return Foreign{fd, size, max(page, PageSize)}, nil
}

// Size returns how many bytes there are.
func (f Foreign) Size() int { return f.size }

// Span returns how much address space the first n bytes take: whole pages.
func (f Foreign) Span(n int) int {
	if n > f.size-f.page {
		return f.size
	}
	return (n + f.page - 1) / f.page * f.page
}

// Map maps the first n bytes, as much as Span says.
func (f Foreign) Map(n int) (*Region, error) {
	if n < 1 || n > f.size {
		return nil, fmt.Errorf("shm: %d bytes of a region of %d", n, f.size)
	}
	span := f.Span(n)
	m, err := unix.Mmap(f.fd, 0, span, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: map %d bytes: %w", span, err)
	}
	return &Region{mem: m[:span:span], maps: m}, nil
}
