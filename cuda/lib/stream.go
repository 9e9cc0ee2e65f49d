//go:build linux && (amd64 || arm64)

package main

/*
#include "gpu.h"
static inline void gpu_do(void *f, void *with) { ((void (*)(void *))f)(with); }
*/
import "C"

import (
	"unsafe"

	"github.com/nicless/nicless/cuda/internal/gpu"
)

//export gpu_copy
func gpu_copy(device C.int, stream C.uint64_t, to, from unsafe.Pointer, n C.uint64_t, way C.int) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		return t.Copy(address(to), address(from), uint64(n), gpu.Direction(way))
	})
}

//export gpu_set
func gpu_set(device C.int, stream C.uint64_t, to unsafe.Pointer, value, size C.uint, n C.uint64_t) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		return t.Set(address(to), uint32(value), uint64(size), uint64(n))
	})
}

//export gpu_launch
func gpu_launch(device C.int, stream C.uint64_t, stub unsafe.Pointer, l *C.struct_gpu_launch) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		return t.Launch(gpu.Launch{
			Stub: address(stub), Shared: uint64(l.shared), Args: address(unsafe.Pointer(l.args)),
			Packed: unsafe.Slice((*byte)(l.packed), l.packed_size), Cooperative: l.cooperative != 0,
			Grid:  [3]uint32{uint32(l.grid[0]), uint32(l.grid[1]), uint32(l.grid[2])},
			Block: [3]uint32{uint32(l.block[0]), uint32(l.block[1]), uint32(l.block[2])},
		})
	})
}

//export gpu_call
func gpu_call(device C.int, stream C.uint64_t, f, with unsafe.Pointer) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		return t.Call(func() { C.gpu_do(f, with) })
	})
}

//export gpu_stream_new
func gpu_stream_new(device C.int, flags C.uint, priority C.int, stream *C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		t, c := d.NewStream(uint32(flags), int(priority))
		if c == gpu.Success {
			*stream = C.uint64_t(t.Handle)
		}
		return c
	})
}

//export gpu_stream_destroy
func gpu_stream_destroy(device C.int, stream C.uint64_t) C.int {
	return streaming(device, stream, (*gpu.Stream).Destroy)
}

//export gpu_stream_synchronize
func gpu_stream_synchronize(device C.int, stream C.uint64_t) C.int {
	return streaming(device, stream, (*gpu.Stream).Synchronize)
}

//export gpu_stream_query
func gpu_stream_query(device C.int, stream C.uint64_t) C.int {
	return streaming(device, stream, (*gpu.Stream).Query)
}

//export gpu_stream_wait
func gpu_stream_wait(device C.int, stream, event C.uint64_t) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		e, c := system().Event(uint64(event))
		if c != gpu.Success {
			return c
		}
		return t.WaitFor(e)
	})
}

//export gpu_stream_flags
func gpu_stream_flags(device C.int, stream C.uint64_t, flags *C.uint, priority *C.int) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		*flags, *priority = C.uint(t.Flags), C.int(t.Priority)
		return gpu.Success
	})
}

//export gpu_event_new
func gpu_event_new(device C.int, flags C.uint, event *C.uint64_t) C.int {
	return with(device, func(d *gpu.Device) gpu.Code {
		*event = C.uint64_t(d.NewEvent(uint32(flags)).Handle)
		return gpu.Success
	})
}

// on calls f with an event.
func on(event C.uint64_t, f func(e *gpu.Event) gpu.Code) C.int {
	e, c := system().Event(uint64(event))
	if c != gpu.Success {
		return C.int(c)
	}
	return C.int(f(e))
}

//export gpu_event_destroy
func gpu_event_destroy(event C.uint64_t) C.int { return on(event, (*gpu.Event).Destroy) }

//export gpu_event_record
func gpu_event_record(event C.uint64_t, device C.int, stream C.uint64_t) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		e, c := system().Event(uint64(event))
		if c != gpu.Success {
			return c
		}
		return e.Record(t)
	})
}

//export gpu_event_synchronize
func gpu_event_synchronize(event C.uint64_t) C.int { return on(event, (*gpu.Event).Synchronize) }

//export gpu_event_query
func gpu_event_query(event C.uint64_t) C.int { return on(event, (*gpu.Event).Query) }

//export gpu_event_elapsed
func gpu_event_elapsed(begin, end C.uint64_t, ms *C.float) C.int {
	return on(end, func(e *gpu.Event) gpu.Code {
		b, c := system().Event(uint64(begin))
		if c != gpu.Success {
			return c
		}
		since, c := e.Since(b)
		*ms = C.float(since)
		return c
	})
}

//export gpu_write_value
func gpu_write_value(device C.int, stream C.uint64_t, at unsafe.Pointer, v C.uint64_t, wide C.int) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		return t.WriteValue(address(at), uint64(v), wide != 0)
	})
}

//export gpu_wait_value
func gpu_wait_value(device C.int, stream C.uint64_t, at unsafe.Pointer, v C.uint64_t, wide C.int,
	condition C.uint) C.int {
	return streaming(device, stream, func(t *gpu.Stream) gpu.Code {
		return t.WaitValue(address(at), uint64(v), wide != 0, gpu.Condition(condition))
	})
}

// store stores what a function has returned.
func store[C ~int32, H ~uint64](to *H, v uint64, c gpu.Code) C {
	*to = H(v)
	return C(c)
}
