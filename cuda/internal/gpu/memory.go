//go:build linux && (amd64 || arm64)

package gpu

import (
	"errors"
	"slices"

	"github.com/nicless/nicless/accel/ptx"
)

// A Kind says whose memory it is, as cudaPointerGetAttributes does.
type Kind int

// The kinds of memory.
const (
	Unregistered Kind = iota
	Host
	DeviceMemory
	Managed
)

// A Memory is memory that the device has allocated. It is memory of the process, and no memory of Go's.
type Memory struct {
	Kind   Kind
	Size   uint64
	in     *slab
	offset uint64 // in the slab
}

// A HostMap is memory of the program that kernels reach.
type HostMap struct {
	Address, Size uint64
	Flags         uint32
}

// Total returns how many bytes of memory the device has: no more than the process gets, so that a program
// which takes nearly all of it, as some do, does not take the machine's.
const Total = 16 << 30

// Allocate allocates memory. It begins at a multiple of 256 bytes; memory of a page or more, at one
// of 64 KiB as long as descriptors suffice (mostOwn).
func (d *Device) Allocate(n uint64, kind Kind) (uint64, Code) {
	if n == 0 {
		return 0, Success
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n > Total-d.used {
		return 0, OutOfMemory
	}
	in, offset, err := d.take(n)
	if err != nil {
		return 0, OutOfMemory
	}
	address := in.base + offset
	if err := d.reachedBy(kind).add(address, n); err != nil {
		in.give(offset, n)
		return 0, Unknown
	}
	d.memory[address] = &Memory{kind, n, in, offset}
	d.used += n
	return address, Success
}

// take takes bytes of a slab that has them, or of a new one.
func (d *Device) take(n uint64) (in *slab, offset uint64, err error) {
	if n < pageBytes || (n <= mostSmall && d.own == mostOwn) {
		return d.takeShared(n)
	}
	if in, err = newSlab(n); err != nil {
		return nil, 0, err
	}
	if n <= mostSmall {
		in.counted = true
		d.own++
	}
	offset, _ = in.take(n)
	return in, offset, nil
}

// takeShared takes bytes of a slab that allocations share.
func (d *Device) takeShared(n uint64) (in *slab, offset uint64, err error) {
	for _, s := range d.slabs {
		if offset, ok := s.take(n); ok {
			return s, offset, nil
		}
	}
	if in, err = newSlab(slabBytes); err != nil {
		return nil, 0, err
	}
	d.slabs = append(d.slabs, in)
	offset, _ = in.take(n)
	return in, offset, nil
}

// Free gives memory of the device, and managed memory, back. Tasks that were added before are done first.
func (d *Device) Free(address uint64) Code { return d.free(address, false, false) }

// FreeHost gives memory of the host back. Tasks that were added before are done first.
func (d *Device) FreeHost(address uint64) Code { return d.free(address, true, false) }

// Detach ends what Attach has begun, after tasks that were added before.
func (d *Device) Detach(address uint64) Code { return d.free(address, false, true) }

func (d *Device) free(address uint64, host, foreign bool) Code {
	if address == 0 {
		return Success
	}
	kind, _, _ := d.Find(address)
	d.mu.Lock()
	users := d.reachedBy(kind)
	d.mu.Unlock()
	if c := users.synchronize(); c != Success {
		return c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.memory[address]
	if a == nil || a.in.size == 0 || (a.Kind == Host) != host { // without size it is mapped by Map
		return InvalidValue
	}
	if a.in.foreign != foreign {
		return InvalidValue
	}
	delete(d.memory, address)
	return d.give(address, a)
}

// give gives an allocation back that the program does not have any more. The mutex is held.
func (d *Device) give(address uint64, a *Memory) Code {
	if !a.in.foreign {
		d.used -= a.Size
	}
	if d.reachedBy(a.Kind).remove(address) != nil {
		return Unknown
	}
	a.in.give(a.offset, a.Size)
	if a.in.unused() || a.in.foreign {
		d.slabs = slices.DeleteFunc(d.slabs, func(s *slab) bool { return s == a.in })
		if a.in.counted {
			d.own--
		}
		if a.in.close() != nil {
			return Unknown
		}
	}
	return Success
}

// Descriptor returns a descriptor of the file in which memory of a device is, which the caller owns, and
// where there the address is. A process that maps it has the same memory.
func (d *Device) Descriptor(address, n uint64) (fd int, offset uint64, c Code) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, offset := d.at(address, n)
	if m == nil {
		return -1, 0, InvalidValue
	}
	fd, c = duplicate(m.in.file)
	return fd, offset, c
}

// OwnDescriptor is Descriptor, but the descriptor is the device's own one. It is closed when the memory is
// freed, or the last one of those that share its slab.
func (d *Device) OwnDescriptor(address, n uint64) (fd int, offset uint64, c Code) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, offset := d.at(address, n)
	if m == nil {
		return -1, 0, InvalidValue
	}
	return int(m.in.file.Fd()), offset, Success
}

// at returns the memory that has n bytes at an address, and where these are in its file, or nil. The mutex is
// held.
func (d *Device) at(address, n uint64) (m *Memory, offset uint64) {
	for at, m := range d.memory {
		if address-at < m.Size && n <= m.Size-(address-at) {
			return m, m.offset + (address - at)
		}
	}
	return nil, 0
}

// Attach maps memory of another process, whose descriptor the caller still owns, until Detach.
func (d *Device) Attach(fd int, offset, n uint64) (address uint64, c Code) {
	in, err := mapOther(fd, offset, n)
	if err != nil {
		return 0, InvalidValue
	}
	address = in.base + offset
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.reachedBy(DeviceMemory).add(address, n); err != nil {
		_ = in.close()
		return 0, InvalidValue
	}
	d.memory[address] = &Memory{DeviceMemory, n, in, offset}
	return address, Success
}

// Info returns how many bytes of memory are free.
func (d *Device) Info() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Total - d.used
}

// Register lets kernels reach memory of the program. No byte of it may be registered already.
func (d *Device) Register(address, n uint64, flags uint32) Code {
	if address == 0 || n == 0 {
		return InvalidValue
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.reachedBy(Host).add(address, n)
	switch {
	case errors.Is(err, ptx.ErrOverlaps):
		return AlreadyRegistered
	case err != nil:
		return InvalidValue
	}
	d.host[address] = &HostMap{address, n, flags}
	return Success
}

// Unregister ends what Register has begun.
func (d *Device) Unregister(address uint64) Code {
	if c := d.reachedBy(Host).synchronize(); c != Success {
		return c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host[address] == nil {
		return NotRegistered
	}
	delete(d.host, address)
	if d.reachedBy(Host).remove(address) != nil {
		return Unknown
	}
	return Success
}

// Find returns the memory that has an address: its kind, where it begins, and its size.
func (d *Device) Find(address uint64) (kind Kind, first, size uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, m := range d.memory {
		if address-at < m.Size {
			return m.Kind, at, m.Size
		}
	}
	for at, m := range d.host {
		if address-at < m.Size {
			return Host, at, m.Size
		}
	}
	return Unregistered, 0, 0
}

// HostFlags returns the flags with which host memory was registered or allocated.
func (d *Device) HostFlags(address uint64) (uint32, Code) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, m := range d.host {
		if address-at < m.Size {
			return m.Flags, Success
		}
	}
	return 0, InvalidValue
}
