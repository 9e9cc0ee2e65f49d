//go:build linux && (amd64 || arm64)

package gpu

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Memory of devices is in slabs: files in memory, so that other processes and a NIC's server can map them
// too. Their size is sealed, because that server trusts no file that can shrink. An allocation of a page or
// more has a slab of its own, so that its memory begins where the file begins, as that of a dma-buf does.
// Allocations of less share slabs, and so do others once many have one of their own: a program may have more
// allocations than descriptors.
const (
	slabBytes = 8 << 20 // of a slab that allocations share
	mostSmall = 1 << 20 // bytes of the largest allocation in a slab that is shared
	mostOwn   = 256     // allocations of at most mostSmall bytes that have slabs of their own
	granule   = 256     // bytes: CUDA's promise of alignment
	pageBytes = 4096
	alignment = 64 << 10 // of slabs: a GPU's page, to which NVSHMEM rounds addresses up
)

// A slab is a file in memory, mapped.
type slab struct {
	file *os.File
	base uint64 // address
	size uint64 // of the mapping; 0: Map has mapped it
	free []span // by offset; neighbours are merged

	foreign bool // another process has made it
	counted bool // among the slabs that mostOwn limits
}

// A span is a part of a slab.
type span struct{ offset, size uint64 }

// newFile returns a file in memory whose size nobody can change.
func newFile(size uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate("nicless-gpu", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory of a GPU")
	if err := f.Truncate(int64(size)); err != nil {
		_ = f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("seal: %w", err)
	}
	return f, nil
}

// newSlab makes a slab of whole pages.
func newSlab(size uint64) (*slab, error) {
	size = (size + pageBytes - 1) &^ uint64(pageBytes-1)
	f, err := newFile(size)
	if err != nil {
		return nil, err
	}
	base, err := mapAligned(f, size)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &slab{file: f, base: base, size: size, free: []span{{0, size}}}, nil
}

// mapAligned maps a file of memory at an address that nothing has.
func mapAligned(f *os.File, size uint64) (base uint64, err error) {
	base, err = reserve(size, alignment, 0)
	if err != nil {
		return 0, err
	}
	if err := mapFile(f, 0, base, size, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		_ = unix.MunmapPtr(pointerTo(base), uintptr(size))
		return 0, err
	}
	return base, nil
}

// mapOther maps a slab of another process. It has to be sealed, and to have n bytes at offset.
func mapOther(fd int, offset, n uint64) (*slab, error) {
	var st unix.Stat_t
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, fmt.Errorf("descriptor %d is no sealed memory: %w", fd, err)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if size := uint64(st.Size); offset > size || n > size-offset {
		return nil, fmt.Errorf("%d bytes at %d of memory of %d bytes", n, offset, size)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), "memory of another GPU")
	base, err := mapAligned(f, uint64(st.Size))
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &slab{file: f, base: base, size: uint64(st.Size), foreign: true}, nil
}

// take takes bytes of the slab, which begin at a granule.
func (s *slab) take(n uint64) (offset uint64, ok bool) {
	n = (n + granule - 1) &^ uint64(granule-1)
	for k, f := range s.free {
		if f.size < n {
			continue
		}
		s.free[k] = span{f.offset + n, f.size - n}
		if f.size == n {
			s.free = slices.Delete(s.free, k, k+1)
		}
		return f.offset, true
	}
	return 0, false
}

// give gives bytes back that were taken.
func (s *slab) give(offset, n uint64) {
	n = (n + granule - 1) &^ uint64(granule-1)
	k, _ := slices.BinarySearchFunc(s.free, offset, func(f span, offset uint64) int {
		return int(f.offset/granule) - int(offset/granule)
	})
	s.free = slices.Insert(s.free, k, span{offset, n})
	if k+1 < len(s.free) && offset+n == s.free[k+1].offset {
		s.free[k].size += s.free[k+1].size
		s.free = slices.Delete(s.free, k+1, k+2)
	}
	if k > 0 && s.free[k-1].offset+s.free[k-1].size == offset {
		s.free[k-1].size += s.free[k].size
		s.free = slices.Delete(s.free, k, k+1)
	}
}

// unused reports whether nothing of the slab is taken.
func (s *slab) unused() bool { return len(s.free) == 1 && s.free[0].size == s.size }

// close gives the slab's memory back.
func (s *slab) close() error {
	return errors.Join(unix.MunmapPtr(pointerTo(s.base), uintptr(s.size)), s.file.Close())
}
