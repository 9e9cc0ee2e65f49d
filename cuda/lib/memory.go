//go:build linux && (amd64 || arm64)

package main

/*
#include "gpu.h"
*/
import "C"

import (
	"unsafe"

	"github.com/nicless/nicless/cuda/internal/gpu"
)

//export gpu_allocate
func gpu_allocate(device C.int, n C.uint64_t, kind C.int, at *unsafe.Pointer) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		a, c := d.Allocate(uint64(n), gpu.Kind(kind))
		if c == gpu.Success {
			pointer(at, a)
		}
		return c
	})
}

//export gpu_can_reach
func gpu_can_reach(device, peer C.int, can *C.int) C.int {
	ok, c := system().CanReach(int(device), int(peer))
	*can = 0
	if ok {
		*can = 1
	}
	return C.int(c)
}

//export gpu_peer
func gpu_peer(device, peer, on C.int) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		if on != 0 {
			return d.EnablePeer(int(peer))
		}
		return d.DisablePeer(int(peer))
	})
}

//export gpu_free
func gpu_free(device C.int, at unsafe.Pointer) C.int {
	return with(device, func(d *gpu.Device) gpu.Code { return d.Free(address(at)) })
}

//export gpu_allocate_in
func gpu_allocate_in(device C.int, stream C.uint64_t, of C.int, n C.uint64_t, at *unsafe.Pointer) C.int {
	return with(of, func(owner *gpu.Device) gpu.Code {
		return gpu.Code(streaming(device, stream, func(t *gpu.Stream) gpu.Code {
			a, c := owner.AllocateIn(t, uint64(n))
			if c == gpu.Success {
				pointer(at, a)
			}
			return c
		}))
	})
}

//export gpu_free_in
func gpu_free_in(device C.int, stream C.uint64_t, of C.int, at unsafe.Pointer) C.int {
	return with(of, func(owner *gpu.Device) gpu.Code {
		return gpu.Code(streaming(device, stream, func(t *gpu.Stream) gpu.Code {
			return owner.FreeIn(t, address(at))
		}))
	})
}

//export gpu_free_host
func gpu_free_host(device C.int, at unsafe.Pointer) C.int {
	return with(device, func(d *gpu.Device) gpu.Code { return d.FreeHost(address(at)) })
}

//export gpu_info
func gpu_info(device C.int, free, total *C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		*free, *total = C.uint64_t(d.Info()), gpu.Total
		return d.Err()
	})
}

//export gpu_host_register
func gpu_host_register(device C.int, at unsafe.Pointer, n C.uint64_t, flags C.uint) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		return d.Register(address(at), uint64(n), uint32(flags))
	})
}

//export gpu_host_unregister
func gpu_host_unregister(device C.int, at unsafe.Pointer) C.int {
	return with(device, func(d *gpu.Device) gpu.Code { return d.Unregister(address(at)) })
}

//export gpu_host_flags
func gpu_host_flags(device C.int, at unsafe.Pointer, flags *C.uint) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		f, c := d.HostFlags(address(at))
		*flags = C.uint(f)
		return c
	})
}

//export gpu_find
func gpu_find(at unsafe.Pointer, kind, device *C.int, first *unsafe.Pointer, size *C.uint64_t) C.int {
	for n := range system().Devices() {
		d, _ := system().Device(n)
		k, a, bytes := d.Find(address(at))
		if k != gpu.Unregistered {
			*kind, *device, *size = C.int(k), C.int(n), C.uint64_t(bytes)
			pointer(first, a)
			return 0
		}
	}
	*kind, *device, *size = C.int(gpu.Unregistered), -2, 0 // cudaInvalidDeviceId
	return 0
}
