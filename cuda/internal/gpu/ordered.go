//go:build linux && (amd64 || arm64)

package gpu

import "slices"

// A freed allocation is memory that a stream gives back when it has done what it was told to do before. Until
// then the same stream can have it again, because what it does next comes after that.
type freed struct {
	by      any // the stream (identity)
	address uint64
	memory  *Memory
}

// identity returns what is the same for all values that stand for one stream.
func (t *Stream) identity() any {
	if t.Handle == 0 {
		return t.device
	}
	return t
}

// FreeIn gives memory of the device back when a stream, of any device, has done everything that it has been
// told to do. The caller does not wait for that, but may not use the memory any more.
func (d *Device) FreeIn(t *Stream, address uint64) Code {
	if address == 0 {
		return Success
	}
	f, c := d.leave(t, address)
	if c != Success {
		return c
	}
	if c = t.add(func() { d.reclaim(f) }); c != Success {
		d.keep(f)
	}
	return c
}

// keep makes a freed allocation one of the program again, unless the stream has it again.
func (d *Device) keep(f *freed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := slices.Index(d.freed, f); k >= 0 {
		d.restore(k)
	}
}

// leave takes an allocation from the program, for a stream that will give it back.
func (d *Device) leave(t *Stream, address uint64) (*freed, Code) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.memory[address]
	if m == nil || m.in.size == 0 || m.Kind == Host || m.in.foreign { // without size it is mapped by Map
		return nil, InvalidValue
	}
	f := &freed{t.identity(), address, m}
	delete(d.memory, address)
	d.freed = append(d.freed, f)
	return f, Success
}

// restore makes the freed allocation with an index one of the program again. The mutex is held.
func (d *Device) restore(k int) (address uint64) {
	f := d.freed[k]
	d.freed = slices.Delete(d.freed, k, k+1)
	d.memory[f.address] = f.memory
	return f.address
}

// reclaim gives a freed allocation back, unless the stream has it again.
func (d *Device) reclaim(f *freed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := slices.Index(d.freed, f)
	if k < 0 {
		return
	}
	d.freed = slices.Delete(d.freed, k, k+1)
	_ = d.give(f.address, f.memory)
}

// AllocateIn allocates memory of the device for what a stream, of any device, is told to do from now on:
// memory that the same stream has freed, also if it has not come so far. If the device has too little, it
// waits until the stream has given back what it has freed.
func (d *Device) AllocateIn(t *Stream, n uint64) (address uint64, c Code) {
	address, frees := d.again(t, n)
	if address != 0 {
		return address, Success
	}
	address, c = d.Allocate(n, DeviceMemory)
	if c != OutOfMemory || !frees {
		return address, c
	}
	if c = t.Synchronize(); c != Success {
		return 0, c
	}
	return d.Allocate(n, DeviceMemory)
}

// again returns an allocation of n bytes that a stream has freed and not yet given back, or 0. frees reports
// whether the stream will give any back.
func (d *Device) again(t *Stream, n uint64) (address uint64, frees bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, f := range d.freed {
		if f.by != t.identity() {
			continue
		}
		if f.memory.Kind == DeviceMemory && f.memory.Size == n {
			return d.restore(k), true
		}
		frees = true
	}
	return 0, frees
}
