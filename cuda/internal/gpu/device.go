//go:build linux && (amd64 || arm64)

package gpu

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/nicless/nicless/accel/ptx"
)

// Properties of every device: those of a GPU of compute capability 9.0, but for the number of its
// multiprocessors. Programs make their grids by it, and threads of a host execute them.
const (
	Major                 = 9
	Minor                 = 0
	WarpSize              = 32
	MaxThreads            = 1024 // of a block
	MaxThreadsOfSM        = ptx.MultiprocessorThreads
	SharedOfBlock         = 48 << 10 // that need not be asked for
	SharedOfBlockOptIn    = 227 << 10
	SharedOfSM            = ptx.MultiprocessorShared
	Registers             = 65536
	Multiprocessors       = 16
	ConstantBytes         = 64 << 10
	L2Bytes               = 50 << 20
	MaxGridX              = 1<<31 - 1
	MaxGridYZ             = 1<<16 - 1
	MaxBlockZ             = 64
	ClockKHz              = 1_000_000 // of clock64: it counts nanoseconds
	MaxBlocksOfSM         = ptx.MultiprocessorBlocks
	DriverVersion         = 13000
	TextureAlignment      = 512
	TexturePitchAlignment = 32
)

// A Device is an emulated GPU.
type Device struct {
	system *System
	number int
	space  ptx.Space
	late   *ptx.Late

	orderMu     sync.Mutex
	overtakings int // that have been noted

	mu      sync.Mutex
	broken  Code                // of a kernel: it stays
	memory  map[uint64]*Memory  // by address
	freed   []*freed            // memory that streams will give back
	host    map[uint64]*HostMap // registered host memory, by address
	slabs   []*slab             // those that small allocations share
	own     int                 // slabs that have only one small allocation; at most mostOwn
	used    uint64              // bytes of memory
	streams map[uint64]*Stream
	threads map[int]*Stream // the default streams of threads
	ending  []*Stream       // destroyed, with tasks that may not be done
	events  map[uint64]*Event
	tail    *task    // of the default stream
	peers   reachers // other devices that reach this one's memory
}

func newDevice(s *System, n int) *Device {
	d := &Device{
		system: s, number: n, memory: map[uint64]*Memory{}, host: map[uint64]*HostMap{},
		streams: map[uint64]*Stream{}, threads: map[int]*Stream{}, events: map[uint64]*Event{},
	}
	if s.cfg.Late != 0 {
		d.late = ptx.NewLate(s.cfg.Late)
	}
	return d
}

// Name returns the name of the device.
func (d *Device) Name() string { return "nicless emulated GPU" }

// Bus returns the PCI address of the device. No device of a machine has it.
func (d *Device) Bus() (domain, bus, device int) { return 0xfffe, d.number + 1, 0 }

// BusID is Bus as CUDA writes it.
func (d *Device) BusID() string {
	domain, bus, device := d.Bus()
	return fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, device)
}

// workers returns how many threads execute a kernel.
func (d *Device) workers() int {
	if d.system.cfg.Workers > 0 {
		return d.system.cfg.Workers
	}
	return max(1, runtime.GOMAXPROCS(0)-1)
}

// Err returns the error of a kernel that has broken the device, or Success.
func (d *Device) Err() Code {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}

// fail breaks the device, and reports why.
func (d *Device) fail(c Code, why error) {
	d.mu.Lock()
	first := d.broken == Success
	if first {
		d.broken = c
	}
	d.mu.Unlock()
	if first {
		d.system.report("GPU %d: %s: %v", d.number, c.Name(), why)
	}
}

// report writes a line for whoever runs the program. Names of C++ are readable there.
func (s *System) report(format string, args ...any) {
	if s.cfg.Report != nil {
		fmt.Fprintln(s.cfg.Report, "nicless: "+readable(fmt.Sprintf(format, args...)))
	}
}
