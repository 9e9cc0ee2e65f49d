package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"github.com/nicless/nicless/accel/ptx/internal/machine"
)

// A Kernel is a function that a launch executes.
type Kernel struct {
	kernel  *machine.Kernel
	program *Program
}

// A Param is a parameter of a kernel: Size bytes at Offset of all parameters.
type Param struct {
	Name         string
	Offset, Size int64
}

// Name returns the name of the kernel in the PTX.
func (k *Kernel) Name() string { return k.kernel.Name }

// Params returns the parameters of the kernel, in their order.
func (k *Kernel) Params() []Param {
	var all []Param
	for _, f := range k.kernel.Params {
		all = append(all, Param{f.Name, f.Offset, f.Size})
	}
	return all
}

// ParamBytes returns how many bytes all parameters have.
func (k *Kernel) ParamBytes() int64 { return k.kernel.ParamBytes }

// SharedBytes returns how many bytes of shared memory the program's variables take in each block.
func (k *Kernel) SharedBytes() int64 { return k.kernel.SharedBytes() }

// LocalBytes returns how many bytes each lane has for local variables, without those of functions that the
// kernel calls.
func (k *Kernel) LocalBytes() int64 { return k.kernel.FrameBytes }

// MaxThreads returns the most threads that a block may have, as the kernel's directives say.
func (k *Kernel) MaxThreads() int64 { return k.kernel.MaxThreads() }

// An Addresser has memory that kernels know by its address.
type Addresser interface{ Address() uint64 }

// Arguments returns the bytes of parameters with these values: integers, floats, booleans, addresses of an
// Addresser, and []byte for structures, which is copied. An integer or a float has to fit the size of its
// parameter.
func (k *Kernel) Arguments(values ...any) ([]byte, error) {
	params := k.Params()
	if len(values) != len(params) {
		return nil, fmt.Errorf("%s has %d parameters, not %d", k.Name(), len(params), len(values))
	}
	all := make([]byte, k.ParamBytes())
	for i, p := range params {
		if err := put(all[p.Offset:p.Offset+p.Size], values[i]); err != nil {
			return nil, fmt.Errorf("%s: parameter %d (%s) has %d bytes: %w", k.Name(), i, p.Name, p.Size, err)
		}
	}
	return all, nil
}

// put writes a value into a parameter.
func put(to []byte, value any) error {
	switch v := value.(type) {
	case []byte:
		if len(v) != len(to) {
			return fmt.Errorf("%d bytes do not fit", len(v))
		}
		copy(to, v)
		return nil
	case Addresser:
		return number(to, v.Address(), 64)
	}
	v := reflect.ValueOf(value)
	switch {
	case v.CanInt():
		n := v.Int()
		if bits := 8 * len(to); bits < 64 && (n < -1<<(bits-1) || n >= 1<<bits) {
			return fmt.Errorf("%d does not fit", n)
		}
		return number(to, uint64(n), 0)
	case v.CanUint():
		n := v.Uint()
		if bits := 8 * len(to); bits < 64 && n >= 1<<bits {
			return fmt.Errorf("%d does not fit", n)
		}
		return number(to, n, 0)
	case v.Kind() == reflect.Bool:
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		return number(to, n, 0)
	case v.Kind() == reflect.Float32:
		return number(to, uint64(math.Float32bits(float32(v.Float()))), 32)
	case v.Kind() == reflect.Float64:
		return number(to, math.Float64bits(v.Float()), 64)
	}
	return fmt.Errorf("a %T is no argument: integers, floats, booleans, addresses and []byte are", value)
}

// number writes a number, which has so many bits, or any.
func number(to []byte, n uint64, bits int) error {
	size := len(to)
	known := size <= 8 && size&(size-1) == 0
	if !known || (bits != 0 && bits != 8*size) {
		return fmt.Errorf("a number of %d bits does not fit", max(bits, 8))
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], n)
	copy(to, word[:])
	return nil
}
