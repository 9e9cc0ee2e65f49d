//go:build linux && (amd64 || arm64)

package main

/*
#include "gpu.h"
*/
import "C"

import (
	"unsafe"

	"github.com/nicless/nicless/cuda/internal/fatbin"
	"github.com/nicless/nicless/cuda/internal/gpu"
)

// containerAt returns a container of a fat binary in memory of C, whose header says how long it is.
func containerAt(p unsafe.Pointer) []byte {
	size, err := fatbin.Size(unsafe.Slice((*byte)(p), 16))
	if err != nil {
		size = 16 // reading it says what is wrong
	}
	return unsafe.Slice((*byte)(p), size)
}

// A wrapper is the struct that compilers put beside a fat binary (__fatBinC_Wrapper_t).
type wrapper struct {
	magic, version uint32
	container      unsafe.Pointer
	more           *unsafe.Pointer // version 2: containers of relocatable code, and nil at the end
}

const wrapperMagic, linkedVersion = 0x466243b1, 2

// containers returns all containers of a fat binary.
func (w *wrapper) containers() [][]byte {
	all := [][]byte{containerAt(w.container)}
	if w.version != linkedVersion || w.more == nil {
		return all
	}
	for at := unsafe.Pointer(w.more); *(*unsafe.Pointer)(at) != nil; at = unsafe.Add(at, unsafe.Sizeof(at)) {
		all = append(all, containerAt(*(*unsafe.Pointer)(at)))
	}
	return all
}

//export gpu_register
func gpu_register(w unsafe.Pointer) C.uint64_t {
	return C.uint64_t(system().RegisterBinary((*wrapper)(w).containers()...))
}

//export gpu_unregister
func gpu_unregister(binary C.uint64_t) { system().UnregisterBinary(uint64(binary)) }

//export gpu_function
func gpu_function(binary C.uint64_t, stub unsafe.Pointer, name *C.char) {
	system().RegisterFunction(uint64(binary), address(stub), C.GoString(name))
}

//export gpu_variable
func gpu_variable(binary C.uint64_t, shadow unsafe.Pointer, name *C.char, size C.uint64_t) {
	system().RegisterVariable(uint64(binary), address(shadow), C.GoString(name), uint64(size))
}

//export gpu_symbol
func gpu_symbol(device C.int, shadow unsafe.Pointer, at *unsafe.Pointer, size *C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		a, n, c := d.Symbol(address(shadow))
		if c == gpu.Success {
			pointer(at, a)
			*size = C.uint64_t(n)
		}
		return c
	})
}

//export gpu_module_load
func gpu_module_load(device C.int, image unsafe.Pointer, module *C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		handle, c := load(d, image)
		*module = C.uint64_t(handle)
		return c
	})
}

// load loads what a program has for a module: the wrapper of a fat binary, a container, or PTX that ends
// with a zero.
func load(d *gpu.Device, image unsafe.Pointer) (handle uint64, c gpu.Code) {
	const elf = 0x464c457f
	if image == nil {
		return 0, gpu.InvalidValue
	}
	if w := (*wrapper)(image); w.magic == wrapperMagic {
		return d.LoadModule("", w.containers()...)
	}
	if _, err := fatbin.Size(unsafe.Slice((*byte)(image), 16)); err == nil {
		return d.LoadModule("", containerAt(image))
	}
	if *(*uint32)(image) == elf {
		return 0, gpu.NoKernelImage
	}
	return d.LoadModule(C.GoString((*C.char)(image)))
}

//export gpu_module_unload
func gpu_module_unload(module C.uint64_t) { system().UnloadModule(uint64(module)) }

//export gpu_module_function
func gpu_module_function(device C.int, module C.uint64_t, name *C.char, function *C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		handle, c := d.Function(uint64(module), C.GoString(name))
		*function = C.uint64_t(handle)
		return c
	})
}

//export gpu_module_global
func gpu_module_global(device C.int, module C.uint64_t, name *C.char, at *unsafe.Pointer,
	size *C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		a, n, c := d.Global(uint64(module), C.GoString(name))
		if c == gpu.Success {
			pointer(at, a)
			*size = C.uint64_t(n)
		}
		return c
	})
}

//export gpu_function_attributes
func gpu_function_attributes(device C.int, stub unsafe.Pointer, a *C.struct_gpu_attributes) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		k, c := d.Kernel(address(stub))
		if c == gpu.Success {
			a.shared, a.local = C.uint64_t(k.SharedBytes()), C.uint64_t(k.LocalBytes())
			a.threads = C.int32_t(k.MaxThreads())
			dynamic, _ := d.Shared(address(stub))
			a.dynamic = C.uint64_t(dynamic)
		}
		return c
	})
}

//export gpu_occupancy
func gpu_occupancy(n *C.int, device C.int, stub unsafe.Pointer, block C.int, shared C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		blocks, c := d.Occupancy(address(stub), int(block), uint64(shared))
		if c == gpu.Success {
			*n = C.int(blocks)
		}
		return c
	})
}

//export gpu_function_allow
func gpu_function_allow(device C.int, stub unsafe.Pointer, dynamic C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code { return d.AllowShared(address(stub), uint64(dynamic)) })
}
