//go:build linux && (amd64 || arm64)

package gpu

import (
	"bytes"
	"slices"
)

// A Direction says which sides of a copy are memory of the device.
type Direction int

// The directions, as CUDA numbers them.
const (
	HostToHost Direction = iota
	HostToDevice
	DeviceToHost
	DeviceToDevice
	Default
)

// possible reports whether the device has what a direction says that it has.
func (d *Device) possible(to, from, n uint64, way Direction) Code {
	if n == 0 {
		return Success
	}
	if to == 0 || from == 0 {
		return InvalidValue
	}
	if way < HostToHost || way > Default {
		return InvalidMemcpyDirection
	}
	there := slices.Contains([]Direction{HostToDevice, DeviceToDevice}, way)
	here := slices.Contains([]Direction{DeviceToHost, DeviceToDevice}, way)
	if (there && !d.system.reaches(to, n)) || (here && !d.system.reaches(from, n)) {
		return InvalidValue
	}
	return Success
}

// reaches reports whether one of the devices reaches memory.
func (s *System) reaches(address, n uint64) bool {
	return slices.ContainsFunc(s.devices, func(d *Device) bool { return d.space.Has(address, n) })
}

// mostStaged is how many bytes of pageable memory a copy to a device takes at once, as drivers do. For more
// the caller waits.
const mostStaged = 64 << 10

// Copy adds a copy to a stream. As CUDA promises (API synchronization behavior), memory of the program that
// is not registered may be used as soon as it returns: its bytes have been taken, or have arrived.
func (t *Stream) Copy(to, from, n uint64, way Direction) Code {
	if c := t.device.possible(to, from, n, way); c != Success || n == 0 {
		return c
	}
	s := t.device.system
	toPageable, fromPageable := !s.reaches(to, n), !s.reaches(from, n)
	if !toPageable && fromPageable && n <= mostStaged {
		staged := bytes.Clone(at(from, n))
		return t.add(func() { copy(at(to, n), staged) })
	}
	if c := t.add(func() { copy(at(to, n), at(from, n)) }); c != Success {
		return c
	}
	if toPageable || fromPageable {
		return t.Synchronize()
	}
	return Success
}

// Set adds to a stream that n values of 1, 2 or 4 bytes are stored.
func (t *Stream) Set(to uint64, value uint32, size, n uint64) Code {
	if n == 0 {
		return Success
	}
	if to%size != 0 || n > Total/size || !t.device.system.reaches(to, n*size) {
		return InvalidValue
	}
	return t.add(func() {
		b := at(to, n*size)
		for k := range b {
			b[k] = byte(value >> (8 * (uint64(k) % size)))
		}
	})
}
