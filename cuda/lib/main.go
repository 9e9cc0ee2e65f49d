//go:build linux && (amd64 || arm64)

// Command lib is libnicless_gpu.so: CUDA's runtime and driver for programs that run without a GPU. Its C
// functions are those that such programs call (runtime.c), and call the functions of this file.
//
// Build it with -buildmode=c-shared. nicless run --gpu lets a program find it by the names of CUDA's
// libraries.
package main

/*
#include <stdlib.h>
#include "gpu.h"
*/
import "C"

import (
	"os"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"github.com/nicless/nicless/cuda/internal/gpu"
)

func main() {}

// The variables of the environment that nicless run sets.
const (
	devicesVariable = "NICLESS_GPU"        // how many devices there are
	orderVariable   = "NICLESS_GPU_ORDER"  // a seed: stores of kernels are seen late
	ordersVariable  = "NICLESS_GPU_ORDERS" // the directory for what was seen in another order
	workersVariable = "NICLESS_GPU_WORKERS"
)

// system is the system of the program.
var system = sync.OnceValue(func() *gpu.System {
	number := func(name string, usual uint64) uint64 {
		n, err := strconv.ParseUint(os.Getenv(name), 0, 64)
		if err != nil {
			return usual
		}
		return n
	}
	return gpu.New(gpu.Config{
		Devices: int(min(number(devicesVariable, 1), 16)),
		Workers: int(min(number(workersVariable, 0), 1024)),
		Late:    number(orderVariable, 0), Orders: os.Getenv(ordersVariable),
		Print: os.Stdout, Report: os.Stderr,
	})
})

// with calls f with a device.
func with(device C.int, f func(d *gpu.Device) gpu.Code) C.int {
	d, c := system().Device(int(device))
	if c != gpu.Success {
		return C.int(c)
	}
	return C.int(f(d))
}

// streaming calls f with a stream. It runs on the program's thread, because C waits for it.
func streaming(device C.int, stream C.uint64_t, f func(t *gpu.Stream) gpu.Code) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		if stream == gpu.OfThread || stream == 0 && C.gpu_own_stream() != 0 {
			t, made := d.StreamOfThread(syscall.Gettid())
			if made {
				C.gpu_tell_end_of_thread()
			}
			return f(t)
		}
		t, c := d.Stream(uint64(stream))
		if c != gpu.Success {
			return c
		}
		return f(t)
	})
}

// address returns a pointer of C as a number.
func address(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }

// pointer stores a number as a pointer of C.
func pointer(to *unsafe.Pointer, v uint64) { *(*uint64)(unsafe.Pointer(to)) = v }

//export gpu_open
func gpu_open() C.int { system(); return 0 }

//export gpu_devices
func gpu_devices() C.int { return C.int(system().Devices()) }

//export gpu_properties
func gpu_properties(device C.int, p *C.struct_gpu_properties) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		for k, c := range []byte(d.Name()) {
			p.name[k] = C.char(c)
		}
		domain, bus, number := d.Bus()
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&p.uuid)), 16), "nicless GPU\x00\x00\x00\x00")
		p.uuid[15] = C.uint8_t(bus)
		p.total, p.constant = gpu.Total, gpu.ConstantBytes
		p.shared, p.shared_opt_in, p.shared_of_sm = gpu.SharedOfBlock, gpu.SharedOfBlockOptIn, gpu.SharedOfSM
		p.registers, p.warp, p.threads = gpu.Registers, gpu.WarpSize, gpu.MaxThreads
		p.block = [3]C.int32_t{gpu.MaxThreads, gpu.MaxThreads, gpu.MaxBlockZ}
		p.grid = [3]C.int32_t{gpu.MaxGridX, gpu.MaxGridYZ, gpu.MaxGridYZ}
		p.clock, p.major, p.minor, p.sms = gpu.ClockKHz, gpu.Major, gpu.Minor, gpu.Multiprocessors
		p.threads_of_sm, p.blocks_of_sm, p.l2 = gpu.MaxThreadsOfSM, gpu.MaxBlocksOfSM, gpu.L2Bytes
		p.texture, p.pitch = gpu.TextureAlignment, gpu.TexturePitchAlignment
		p.domain, p.bus, p.device = C.int32_t(domain), C.int32_t(bus), C.int32_t(number)
		return gpu.Success
	})
}

//export gpu_device_of_bus
func gpu_device_of_bus(domain, bus, device C.int, number *C.int) C.int {
	for n := range system().Devices() {
		d, _ := system().Device(n)
		if a, b, c := d.Bus(); C.int(a) == domain && C.int(b) == bus && C.int(c) == device {
			*number = C.int(n)
			return 0
		}
	}
	return C.int(gpu.InvalidDevice)
}

//export gpu_thread_ends
func gpu_thread_ends() { system().ThreadEnds(syscall.Gettid()) }

//export gpu_broken
func gpu_broken(device C.int) C.int { return with(device, (*gpu.Device).Err) }

//export gpu_synchronize
func gpu_synchronize(device C.int) C.int { return with(device, (*gpu.Device).Synchronize) }

// strings are texts that C has got: they stay.
var strings sync.Map

func constant(s string) *C.char {
	if p, ok := strings.Load(s); ok {
		return p.(*C.char)
	}
	p, old := strings.LoadOrStore(s, C.CString(s))
	_ = old // the other one is lost: one for each text at most
	return p.(*C.char)
}

//export gpu_text
func gpu_text(code C.int) *C.char { return constant(gpu.Code(code).Text()) }

//export gpu_name
func gpu_name(code C.int) *C.char { return constant(gpu.Code(code).Name()) }
