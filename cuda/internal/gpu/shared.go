//go:build linux && (amd64 || arm64)

package gpu

import "github.com/nicless/nicless/accel/ptx"

// AllowShared lets launches of a kernel ask for at most n bytes of dynamic shared memory. With the kernel's
// own shared memory no more than SharedOfBlockOptIn are possible.
func (d *Device) AllowShared(stub, n uint64) Code {
	f, k, c := d.kernel(stub)
	if c != Success {
		return c
	}
	if most := beside(k, SharedOfBlockOptIn); n > most {
		d.system.report("%s: %d bytes of dynamic shared memory cannot be allowed: at most %d", f.name, n, most)
		return InvalidValue
	}
	f.binary.mu.Lock()
	defer f.binary.mu.Unlock()
	if f.binary.shared == nil {
		f.binary.shared = map[use]uint64{}
	}
	f.binary.shared[use{d, f.name}] = n
	return Success
}

// Shared returns how many bytes of dynamic shared memory launches of a kernel may ask for.
func (d *Device) Shared(stub uint64) (uint64, Code) {
	f, k, c := d.kernel(stub)
	if c != Success {
		return 0, c
	}
	return f.shared(d, k), Success
}

func (f *function) shared(d *Device, k *ptx.Kernel) uint64 {
	f.binary.mu.Lock()
	defer f.binary.mu.Unlock()
	if n, said := f.binary.shared[use{d, f.name}]; said {
		return n
	}
	return beside(k, SharedOfBlock)
}

// beside returns how many of so many bytes the kernel's own shared memory leaves.
func beside(k *ptx.Kernel, all uint64) uint64 { return all - min(all, uint64(k.SharedBytes())) }
