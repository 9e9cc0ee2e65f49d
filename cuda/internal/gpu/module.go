//go:build linux && (amd64 || arm64)

package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nicless/nicless/accel/ptx"
	"github.com/nicless/nicless/cuda/internal/fatbin"
)

// An image is what a program has registered, or loaded: containers that belong together, or PTX.
type image struct {
	containers [][]byte
	text       string
	mu         sync.Mutex
	loaded     map[*Device]*loaded
	shared     map[use]uint64 // how much dynamic shared memory launches may ask for, if that was set

	running sync.RWMutex    // read while a kernel is executed
	life    context.Context // ends when the image is unregistered
	end     context.CancelCauseFunc
}

// A use is a kernel of an image on a device.
type use struct {
	device *Device
	kernel string
}

// errUnregistered is why kernels end whose image is unregistered.
var errUnregistered = errors.New("the program has unregistered the kernel")

func newImage(text string, containers ...[]byte) *image {
	b := &image{containers: containers, text: text, loaded: map[*Device]*loaded{}}
	b.life, b.end = context.WithCancelCause(context.Background())
	return b
}

// execute executes a kernel of the image, unless it is unregistered.
func (b *image) execute(k *ptx.Kernel, l ptx.Launch) error {
	b.running.RLock()
	defer b.running.RUnlock()
	if b.life.Err() != nil {
		return nil
	}
	if err := k.Run(b.life, l); !errors.Is(err, errUnregistered) {
		return err
	}
	return nil
}

// A loaded image is a program on a device, or why it is none.
type loaded struct {
	program *ptx.Program
	code    Code
}

// A function is a kernel that the host knows by the address of its stub.
type function struct {
	binary *image
	name   string
}

// A variable is one of a device that the host knows by the address of its shadow.
type variable struct {
	binary *image
	name   string
	size   uint64
}

// RegisterBinary registers containers that are linked with each other, and returns a handle.
func (s *System) RegisterBinary(containers ...[]byte) uint64 {
	handle := s.handle()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[handle] = newImage("", containers...)
	return handle
}

// LoadModule loads PTX on a device or, without any, containers that are linked with each other, and returns a
// handle.
func (d *Device) LoadModule(text string, containers ...[]byte) (handle uint64, c Code) {
	b := newImage(text, containers...)
	if _, c := b.on(d); c != Success {
		return 0, c
	}
	s := d.system
	handle = s.handle()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[handle] = b
	return handle, Success
}

// Function returns a handle of a kernel of a module, which stands for it as a stub does.
func (d *Device) Function(module uint64, name string) (handle uint64, c Code) {
	s := d.system
	s.mu.Lock()
	b := s.images[module]
	s.mu.Unlock()
	if b == nil {
		return 0, InvalidHandle
	}
	p, c := b.on(d)
	if c != Success {
		return 0, c
	}
	if _, c := d.find(p, name); c != Success {
		if c == InvalidDeviceFunction {
			c = SymbolNotFound
		}
		return 0, c
	}
	handle = s.handle()
	s.RegisterFunction(module, handle, name)
	return handle, Success
}

// Global returns the address and the size of a variable of a module.
func (d *Device) Global(module uint64, name string) (address, size uint64, c Code) {
	s := d.system
	s.mu.Lock()
	b := s.images[module]
	s.mu.Unlock()
	if b == nil {
		return 0, 0, InvalidHandle
	}
	p, c := b.on(d)
	if c != Success {
		return 0, 0, c
	}
	address, n, err := p.Variable(name)
	if err != nil {
		return 0, 0, SymbolNotFound
	}
	return address, uint64(n), Success
}

// RegisterFunction says which kernel a stub stands for.
func (s *System) RegisterFunction(of, stub uint64, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.functions[stub] = &function{s.images[of], name}
}

// RegisterVariable says which variable a shadow stands for.
func (s *System) RegisterVariable(of, shadow uint64, name string, size uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.variables[shadow] = &variable{s.images[of], name, size}
}

// UnloadModule unregisters a module, after everything that its devices have been told to do.
func (s *System) UnloadModule(handle uint64) {
	s.mu.Lock()
	b := s.images[handle]
	s.mu.Unlock()
	if b == nil {
		return
	}
	for _, d := range b.devices() {
		_ = d.Synchronize()
	}
	s.UnregisterBinary(handle)
}

// devices returns the devices on which an image is loaded.
func (b *image) devices() []*Device {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.loaded))
}

// UnregisterBinary forgets a binary, its functions and its variables. Its kernels end early: a program that
// ends does not wait for them.
func (s *System) UnregisterBinary(handle uint64) {
	s.mu.Lock()
	b := s.images[handle]
	delete(s.images, handle)
	for stub, f := range s.functions {
		if f.binary == b {
			delete(s.functions, stub)
		}
	}
	for shadow, v := range s.variables {
		if v.binary == b {
			delete(s.variables, shadow)
		}
	}
	s.mu.Unlock()
	if b == nil {
		return
	}
	b.end(errUnregistered)
	b.running.Lock()
	defer b.running.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.loaded {
		if l.program != nil {
			_ = l.program.Close()
		}
	}
}

// on returns the program of a binary on a device, which it loads if nobody has.
func (b *image) on(d *Device) (*ptx.Program, Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.loaded[d]
	if l == nil {
		l = &loaded{}
		l.program, l.code = b.load(d)
		b.loaded[d] = l
	}
	return l.program, l.code
}

// load loads a binary.
func (b *image) load(d *Device) (*ptx.Program, Code) {
	var modules []ptx.Module
	if b.text != "" {
		modules = append(modules, ptx.Module{Name: "PTX", Text: b.text})
	}
	for n, c := range b.containers {
		f, err := fatbin.Read(c)
		if err != nil {
			d.system.report("a fat binary of the program cannot be read: %v", err)
			return nil, InvalidKernelImage
		}
		if len(f.PTX) == 0 && len(f.Codes) == 0 {
			continue
		}
		best, err := choose(f)
		if err != nil {
			d.system.report("%v", err)
			return nil, NoKernelImage
		}
		name := fmt.Sprintf("PTX %d for compute_%d", n, best.Architecture)
		modules = append(modules, ptx.Module{Name: name, Text: best.Text})
	}
	p, err := ptx.Load(&d.space, modules...)
	if err != nil {
		d.system.report("kernels of the program cannot be loaded: %v", err)
		return nil, InvalidPTX
	}
	return p, Success
}

// architecture is the greatest one whose PTX the device executes.
const architecture = 10*Major + Minor

// choose returns the PTX that was made for the greatest architecture that the device has.
func choose(f *fatbin.Binary) (best fatbin.PTX, err error) {
	for _, p := range f.PTX {
		if p.Architecture <= architecture && p.Architecture >= best.Architecture {
			best = p
		}
	}
	if best.Text != "" {
		return best, nil
	}
	var there []string
	for _, c := range slices.Sorted(slices.Values(f.Codes)) {
		there = append(there, fmt.Sprintf("sm_%d", c))
	}
	for _, p := range f.PTX {
		there = append(there, fmt.Sprintf("compute_%d", p.Architecture))
	}
	return best, fmt.Errorf("kernels of the program are for %v only, and not PTX for compute_%d or less: "+
		"compile them with nvcc -gencode arch=compute_80,code=compute_80", there, architecture)
}

// Kernel returns the kernel that a stub stands for.
func (d *Device) Kernel(stub uint64) (*ptx.Kernel, Code) {
	_, k, c := d.kernel(stub)
	return k, c
}

func (d *Device) kernel(stub uint64) (*function, *ptx.Kernel, Code) {
	s := d.system
	s.mu.Lock()
	f := s.functions[stub]
	s.mu.Unlock()
	if f == nil || f.binary == nil {
		return nil, nil, InvalidDeviceFunction
	}
	p, c := f.binary.on(d)
	if c != Success {
		return nil, nil, c
	}
	k, c := d.find(p, f.name)
	return f, k, c
}

// find returns a kernel of a program.
func (d *Device) find(p *ptx.Program, name string) (*ptx.Kernel, Code) {
	k, err := p.Kernel(name)
	switch {
	case err == nil:
		return k, Success
	case errors.Is(err, ptx.ErrNoKernel):
		return nil, InvalidDeviceFunction
	}
	d.system.report("kernel %s cannot be executed: %v", name, err)
	return nil, InvalidPTX
}

// Symbol returns the address and the size of the variable for which a shadow stands.
func (d *Device) Symbol(shadow uint64) (address, size uint64, c Code) {
	s := d.system
	s.mu.Lock()
	v := s.variables[shadow]
	s.mu.Unlock()
	if v == nil || v.binary == nil {
		return 0, 0, InvalidSymbol
	}
	p, c := v.binary.on(d)
	if c != Success {
		return 0, 0, c
	}
	address, n, err := p.Variable(v.name)
	if err != nil {
		return 0, 0, InvalidSymbol
	}
	return address, uint64(n), Success
}
