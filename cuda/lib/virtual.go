//go:build linux && (amd64 || arm64)

package main

/*
#include "gpu.h"
*/
import "C"

import (
	"github.com/nicless/nicless/cuda/internal/gpu"
)

//export gpu_create
func gpu_create(size C.uint64_t, handle *C.uint64_t) C.int {
	h, c := system().Create(uint64(size))
	return store[C.int](handle, h, c)
}

//export gpu_release
func gpu_release(handle C.uint64_t) C.int { return C.int(system().Release(uint64(handle))) }

//export gpu_reserve
func gpu_reserve(size, align, hint C.uint64_t, at *C.uint64_t) C.int {
	a, c := system().Reserve(uint64(size), uint64(align), uint64(hint))
	return store[C.int](at, a, c)
}

//export gpu_unreserve
func gpu_unreserve(at, size C.uint64_t) C.int {
	return C.int(system().Unreserve(uint64(at), uint64(size)))
}

//export gpu_map
func gpu_map(at, size, offset, handle C.uint64_t) C.int {
	return C.int(system().Map(uint64(at), uint64(size), uint64(offset), uint64(handle)))
}

//export gpu_unmap
func gpu_unmap(at, size C.uint64_t) C.int { return C.int(system().Unmap(uint64(at), uint64(size))) }

//export gpu_set_access
func gpu_set_access(device C.int, at, size C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code { return d.SetAccess(uint64(at), uint64(size)) })
}

//export gpu_export
func gpu_export(handle C.uint64_t, fd *C.int) C.int {
	n, c := system().Export(uint64(handle))
	*fd = C.int(n)
	return C.int(c)
}

//export gpu_import
func gpu_import(fd C.int, handle *C.uint64_t) C.int {
	h, c := system().Import(int(fd))
	return store[C.int](handle, h, c)
}

//export gpu_retain
func gpu_retain(at C.uint64_t, handle *C.uint64_t) C.int {
	h, c := system().Retain(uint64(at))
	return store[C.int](handle, h, c)
}

// file stores what a method of the device that has some memory returns.
func file(at, size C.uint64_t, fd *C.int, offset *C.uint64_t,
	get func(d *gpu.Device, address, n uint64) (int, uint64, gpu.Code)) C.int {
	for n := range system().Devices() {
		d, _ := system().Device(n)
		if descriptor, o, c := get(d, uint64(at), uint64(size)); c == gpu.Success {
			*fd, *offset = C.int(descriptor), C.uint64_t(o)
			return 0
		}
	}
	return C.int(gpu.InvalidValue)
}

//export gpu_file
func gpu_file(at, size C.uint64_t, fd *C.int, offset *C.uint64_t) C.int {
	return file(at, size, fd, offset, (*gpu.Device).Descriptor)
}

//export gpu_own_file
func gpu_own_file(at, size C.uint64_t, fd *C.int, offset *C.uint64_t) C.int {
	return file(at, size, fd, offset, (*gpu.Device).OwnDescriptor)
}

//export gpu_detach
func gpu_detach(device C.int, at C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code { return d.Detach(uint64(at)) })
}

//export gpu_attach
func gpu_attach(device, fd C.int, offset, size C.uint64_t, at *C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		a, c := d.Attach(int(fd), uint64(offset), uint64(size))
		*at = C.uint64_t(a)
		return c
	})
}
