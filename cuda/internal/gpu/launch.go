//go:build linux && (amd64 || arm64)

package gpu

import (
	"encoding/binary"
	"errors"

	"github.com/nicless/nicless/accel/ptx"
)

// A Launch is a kernel that a stream is to execute.
type Launch struct {
	Stub        uint64
	Grid, Block [3]uint32
	Args        uint64 // the address of pointers to the parameters, or 0
	Packed      []byte // the parameters, one behind the other, if Args is 0
	Shared      uint64
	Cooperative bool // all blocks have to be resident together
}

// Launch adds a kernel to a stream. The parameters are copied before it returns.
func (t *Stream) Launch(l Launch) Code {
	d := t.device
	if c := d.Err(); c != Success {
		return c
	}
	f, k, c := d.kernel(l.Stub)
	if c != Success {
		return c
	}
	if most := f.shared(d, k); l.Shared > most {
		d.system.report("%s: impossible launch: %d bytes of dynamic shared memory; %d are allowed, and more by "+
			"cudaFuncAttributeMaxDynamicSharedMemorySize", f.name, l.Shared, most)
		return InvalidValue
	}
	return t.run(f.binary, k, l)
}

func (t *Stream) run(b *image, k *ptx.Kernel, l Launch) Code {
	d := t.device
	launch := ptx.Launch{
		Grid: l.Grid, Block: l.Block, Shared: l.Shared, Params: parameters(k, l), Workers: d.workers(),
		Print: d.system.cfg.Print, Late: d.late, Cooperative: l.Cooperative,
	}
	if err := k.Check(launch); err != nil {
		d.system.report("%v", err)
		return InvalidConfiguration
	}
	if l.Cooperative {
		blocks := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])
		threads := int(l.Block[0] * l.Block[1] * l.Block[2])
		if most := Multiprocessors * k.Resident(threads, l.Shared); blocks > uint64(most) {
			d.system.report("%s: impossible launch: %d cooperative blocks of %d threads and %d bytes of dynamic "+
				"shared memory; %d multiprocessors have at most %d at a time",
				k.Name(), blocks, threads, l.Shared, Multiprocessors, most)
			return CooperativeTooLarge
		}
	}
	return t.add(func() {
		if err := b.execute(k, launch); err != nil {
			d.fail(codeOf(err), err)
		}
		d.noteOrder()
	})
}

// parameters copies the parameters of a kernel.
func parameters(k *ptx.Kernel, l Launch) []byte {
	all := make([]byte, k.ParamBytes())
	if l.Args == 0 {
		copy(all, l.Packed)
		return all
	}
	for i, p := range k.Params() {
		pointer := binary.LittleEndian.Uint64(at(l.Args+8*uint64(i), 8))
		copy(all[p.Offset:p.Offset+p.Size], at(pointer, uint64(p.Size)))
	}
	return all
}

// codeOf returns the error that a kernel's end is.
func codeOf(err error) Code {
	var f *ptx.Fault
	if !errors.As(err, &f) {
		return LaunchFailure
	}
	switch f.Kind {
	case ptx.Unreachable:
		return IllegalAddress
	case ptx.Misaligned:
		return MisalignedAddress
	case ptx.Assertion:
		return AssertFailed
	}
	return LaunchFailure
}
