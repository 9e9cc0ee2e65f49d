package accel

import (
	"fmt"
	"runtime"

	"github.com/nicless/nicless/accel/ptx"
)

// LoadPTX links modules that a compiler has made for NVIDIA's GPUs, and makes their kernels executable on
// the device, beside kernels of Go: Stream.LaunchPTX launches them. They reach the variables of the program
// and what Map was called for. The program is closed by its Close, when none of its kernels runs.
func (d *Device) LoadPTX(modules ...ptx.Module) (*ptx.Program, error) {
	if d == nil || d.closed == nil {
		return nil, ErrClosed
	}
	return ptx.Load(&d.space, modules...)
}

// Map lets PTX kernels of the device reach memory, as cudaHostRegister does: a buffer's bytes, or queues that
// Raw returns. The memory is not Go's, and no byte of it is mapped already. Kernels know it by its address.
func (d *Device) Map(memory []byte) (address uint64, err error) {
	if d == nil || d.closed == nil {
		return 0, ErrClosed
	}
	address = ptx.AddressOf(memory)
	return address, d.space.Add(address, uint64(len(memory)))
}

// Unmap ends what Map has begun for the same memory, which may be unmapped from the process afterwards if no
// kernel of the device runs.
func (d *Device) Unmap(memory []byte) error {
	if d == nil || d.closed == nil {
		return ErrClosed
	}
	return d.space.Remove(ptx.AddressOf(memory))
}

// LaunchPTX queues a PTX kernel of a program of this device. args are the kernel's parameters, as
// ptx.Kernel.Arguments takes them; a *Buffer stands for the address of its first byte. Of l, Params and Pin
// are not used, and 0 workers are as many as the device has multiprocessors. Arguments that do not fit are an
// error at once; Sync returns what ends the kernel early: a *ptx.Fault, a *ptx.Deadlock, or ErrClosed.
func (s *Stream) LaunchPTX(k *ptx.Kernel, l ptx.Launch, args ...any) error {
	if s == nil || s.dev == nil {
		return errNoStream
	}
	if k == nil {
		return fmt.Errorf("accel: no kernel (nil)")
	}
	params, err := k.Arguments(args...)
	if err != nil {
		return fmt.Errorf("accel: %w", err)
	}
	l.Params, l.Pin = params, s.dev.pinWorker
	if l.Workers == 0 {
		l.Workers = s.dev.cfg.Multiprocessors
	}
	return s.add(func() error {
		if err := s.Err(); err != nil {
			return err
		}
		defer runtime.KeepAlive(args)
		return k.Run(s.dev.life, l)
	})
}

// pinWorker lets a thread run on the cores of the device.
func (d *Device) pinWorker() (unpin func(), err error) {
	runtime.LockOSThread()
	undo, err := d.cfg.pin()
	unpin = func() {
		undo()
		runtime.UnlockOSThread()
	}
	if err != nil {
		unpin()
		return nil, err
	}
	return unpin, nil
}

// Address returns the address by which PTX kernels know the first byte.
func (b *Buffer) Address() uint64 { return ptx.AddressOf(b.mem) }
