//go:build linux && (amd64 || arm64)

package gpu

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Virtual memory: a program reserves addresses, makes memory without an address, and maps the one at the
// other. Memory is a file, so it can be mapped twice, and sent to another process.
type virtual struct {
	mu     sync.Mutex
	files  map[uint64]*Physical
	spaces map[uint64]uint64 // reserved addresses and their sizes
	maps   map[uint64]*mapping
}

// A Physical is memory without an address. It lives as long as a handle or a mapping has it.
type Physical struct {
	Size uint64
	file *os.File
	uses int

	handle  uint64 // the one by which it is known, or 0
	retains int    // how often that handle has to be released
}

// A mapping is a Physical at an address.
type mapping struct {
	of           *Physical
	offset, size uint64
	devices      []*Device // that reach it
}

// Granularity is what sizes and addresses are multiples of.
const Granularity = 2 << 20

// Create makes memory without an address.
func (s *System) Create(size uint64) (handle uint64, c Code) {
	if size == 0 || size%Granularity != 0 {
		return 0, InvalidValue
	}
	if size > Total {
		return 0, OutOfMemory
	}
	f, err := newFile(size)
	if err != nil {
		return 0, OutOfMemory
	}
	s.virtual.mu.Lock()
	defer s.virtual.mu.Unlock()
	return s.keep(&Physical{Size: size, file: f}), Success
}

// keep gives memory its handle once more. The lock is held.
func (s *System) keep(p *Physical) uint64 {
	if p.retains == 0 {
		p.handle = s.handle()
		s.virtual.files[p.handle] = p
	}
	p.uses++
	p.retains++
	return p.handle
}

// drop ends one use. The lock is held.
func (p *Physical) drop() {
	p.uses--
	if p.uses == 0 {
		_ = p.file.Close()
	}
}

// Release releases a handle once. Mappings stay.
func (s *System) Release(handle uint64) Code {
	v := &s.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.files[handle]
	if p == nil {
		return InvalidValue
	}
	p.retains--
	if p.retains == 0 {
		delete(v.files, handle)
	}
	p.drop()
	return Success
}

// nothing is what mmap makes at addresses that are reserved.
const nothing = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE

// Reserve reserves addresses from a multiple of align on, which is a power of two and at least Granularity;
// those that are asked for if they are free.
func (s *System) Reserve(size, align, hint uint64) (address uint64, c Code) {
	if size == 0 || size%Granularity != 0 {
		return 0, InvalidValue
	}
	if size+align < size {
		return 0, InvalidValue
	}
	address, err := reserve(size, align, hint)
	if err != nil {
		return 0, OutOfMemory
	}
	v := &s.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spaces[address] = size
	return address, Success
}

// reserve reserves addresses from a multiple of align on, which is a power of two; those of the hint if they
// are free. The size is a multiple of pages.
func reserve(size, align, hint uint64) (address uint64, err error) {
	// More than is asked for, so that a part of it begins where it should.
	room := size + align
	at, err := unix.MmapPtr(-1, 0, pointerTo(hint&^(align-1)), uintptr(room), unix.PROT_NONE, nothing)
	if err != nil {
		return 0, err
	}
	first := uint64(uintptr(at))
	address = (first + align - 1) &^ (align - 1)
	if address > first {
		_ = unix.MunmapPtr(at, uintptr(address-first))
	}
	if end := first + room; end > address+size {
		_ = unix.MunmapPtr(pointerTo(address+size), uintptr(end-address-size))
	}
	return address, nil
}

// Unreserve gives addresses back. Nothing may be mapped there.
func (s *System) Unreserve(address, size uint64) Code {
	v := &s.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.spaces[address] != size || size == 0 {
		return InvalidValue
	}
	for at := range v.maps {
		if at-address < size {
			return InvalidValue
		}
	}
	delete(v.spaces, address)
	if unix.MunmapPtr(pointerTo(address), uintptr(size)) != nil {
		return Unknown
	}
	return Success
}

// reserved reports whether addresses are reserved. The lock is held.
func (v *virtual) reserved(address, size uint64) bool {
	for at, n := range v.spaces {
		if address-at < n && size <= n-(address-at) {
			return true
		}
	}
	return false
}

// Map maps memory at addresses that are reserved. No device reaches it before SetAccess.
func (s *System) Map(address, size, offset, handle uint64) Code {
	v := &s.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.files[handle]
	whole := address%Granularity == 0 && size%Granularity == 0 && offset%Granularity == 0 && size > 0
	if p == nil || !whole || offset > p.Size || size > p.Size-offset || !v.reserved(address, size) {
		return InvalidValue
	}
	for at, m := range v.maps {
		if address < at+m.size && at < address+size {
			return AlreadyMapped
		}
	}
	if err := mapFile(p.file, offset, address, size, unix.PROT_NONE); err != nil {
		return OutOfMemory
	}
	p.uses++
	v.maps[address] = &mapping{of: p, offset: offset, size: size}
	return Success
}

// mapFile maps a file at an address, in place of what is there.
func mapFile(f *os.File, offset, address, size uint64, protection int) error {
	const fixed = unix.MAP_SHARED | unix.MAP_FIXED
	_, err := unix.MmapPtr(int(f.Fd()), int64(offset), pointerTo(address), uintptr(size), protection, fixed)
	if err != nil {
		return fmt.Errorf("map %d bytes at %#x: %w", size, address, err)
	}
	return nil
}

// SetAccess lets a device, and the host, read and write what is mapped at addresses.
func (d *Device) SetAccess(address, size uint64) Code {
	v := &d.system.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	for size > 0 {
		m := v.maps[address]
		if m == nil || m.size > size {
			return InvalidValue
		}
		if err := mapFile(m.of.file, m.offset, address, m.size, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return OutOfMemory
		}
		if !slices.Contains(m.devices, d) {
			if d.space.Add(address, m.size) != nil {
				return InvalidValue
			}
			if len(m.devices) == 0 { // it is found as memory of the first one
				d.mu.Lock()
				in := &slab{file: m.of.file, base: address}
				d.memory[address] = &Memory{Kind: DeviceMemory, Size: m.size, in: in, offset: m.offset}
				d.mu.Unlock()
			}
			m.devices = append(m.devices, d)
		}
		address += m.size
		size -= m.size
	}
	return Success
}

// Unmap ends mappings. The addresses stay reserved.
func (s *System) Unmap(address, size uint64) Code {
	v := &s.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	for size > 0 {
		m := v.maps[address]
		if m == nil || m.size > size {
			return InvalidValue
		}
		for _, d := range m.devices {
			if c := d.Synchronize(); c != Success {
				return c
			}
		}
		for _, d := range m.devices {
			d.mu.Lock()
			delete(d.memory, address)
			d.mu.Unlock()
			_ = d.space.Remove(address)
		}
		const there = nothing | unix.MAP_FIXED
		_, err := unix.MmapPtr(-1, 0, pointerTo(address), uintptr(m.size), unix.PROT_NONE, there)
		if err != nil {
			return Unknown
		}
		delete(v.maps, address)
		m.of.drop()
		address += m.size
		size -= m.size
	}
	return Success
}

// Export returns a descriptor of memory, which the caller owns.
func (s *System) Export(handle uint64) (fd int, c Code) {
	v := &s.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.files[handle]
	if p == nil {
		return -1, InvalidValue
	}
	return duplicate(p.file)
}

// duplicate returns another descriptor of a file.
func duplicate(f *os.File) (fd int, c Code) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, OutOfMemory
	}
	return fd, Success
}

// Import takes a descriptor that Export has returned, perhaps in another process. The caller still owns it.
func (s *System) Import(fd int) (handle uint64, c Code) {
	var st unix.Stat_t
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 || unix.Fstat(fd, &st) != nil || st.Size%Granularity != 0 {
		return 0, InvalidValue
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, OutOfMemory
	}
	s.virtual.mu.Lock()
	defer s.virtual.mu.Unlock()
	f := os.NewFile(uintptr(own), "memory of a GPU")
	return s.keep(&Physical{Size: uint64(st.Size), file: f}), Success
}

// Retain returns another handle of the memory that is mapped at an address.
func (s *System) Retain(address uint64) (handle uint64, c Code) {
	v := &s.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	for at, m := range v.maps {
		if address-at < m.size {
			return s.keep(m.of), Success
		}
	}
	return 0, InvalidValue
}
