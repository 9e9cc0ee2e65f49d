//go:build linux && (amd64 || arm64)

package gpu

import (
	"io"
	"sync"
)

// A Config says which devices a program sees.
type Config struct {
	Devices int       // 1 to 16
	Workers int       // threads that execute a kernel; 0: one for each core but one
	Late    uint64    // a seed: stores of kernels are seen late (package ptx); 0: at once
	Orders  string    // a directory for what was seen in another order (noteOrder), or nothing
	Print   io.Writer // of printf in kernels
	Report  io.Writer // what is wrong with kernels and modules
}

// A System is what a program sees of CUDA: its devices, and the kernels and variables of its fat binaries.
// Its methods, and those of what it has, are safe for concurrent use.
type System struct {
	cfg     Config
	devices []*Device
	virtual virtual

	mu        sync.Mutex
	images    map[uint64]*image
	functions map[uint64]*function // by the address of the host's stub
	variables map[uint64]*variable // by the address of the host's shadow
	next      uint64               // handle
}

// New returns a system.
func New(cfg Config) *System {
	s := &System{
		cfg: cfg, images: map[uint64]*image{}, functions: map[uint64]*function{},
		variables: map[uint64]*variable{},
		virtual: virtual{
			files: map[uint64]*Physical{}, spaces: map[uint64]uint64{}, maps: map[uint64]*mapping{},
		},
	}
	for n := range cfg.Devices {
		s.devices = append(s.devices, newDevice(s, n))
	}
	return s
}

// Device returns the device with a number.
func (s *System) Device(n int) (*Device, Code) {
	switch {
	case len(s.devices) == 0:
		return nil, NoDevice
	case n < 0 || n >= len(s.devices):
		return nil, InvalidDevice
	}
	return s.devices[n], Success
}

// Devices returns how many devices there are.
func (s *System) Devices() int { return len(s.devices) }

// handle returns a number that nothing has had.
func (s *System) handle() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next << 4
}
