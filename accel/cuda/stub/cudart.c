/*
 * The functions of the CUDA runtime by which a program registers host memory, for programs
 * that run without a GPU. They keep a list of what is registered, in whole pages, and
 * refuse what CUDA refuses: cudaHostRegister a range of which a page is registered already
 * (712), cudaHostUnregister what is not the start of a range (713),
 * cudaHostGetDevicePointer an address that is in no range. Nothing is pinned. Only one
 * thread at a time may call them.
 */
#include "cuda_runtime_api.h"

#include <stdint.h>
#include <stdlib.h>

enum { STUB_PAGE = 4096 };

static struct {
	uintptr_t from, to; /* whole pages */
	uintptr_t at;       /* the address that was registered */
} *stub_ranges;
static size_t stub_count, stub_room;
static cudaError_t stub_last;

static cudaError_t stub_end(cudaError_t error) {
	if (error != cudaSuccess)
		stub_last = error;
	return error;
}

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags) {
	const uintptr_t mask = STUB_PAGE - 1;
	uintptr_t from = (uintptr_t)at & ~mask, to = ((uintptr_t)at + bytes + mask) & ~mask;
	size_t i;
	if (!at || !bytes || (uintptr_t)at + bytes < (uintptr_t)at || flags > 15)
		return stub_end(cudaErrorInvalidValue);
	for (i = 0; i < stub_count; i++)
		if (from < stub_ranges[i].to && to > stub_ranges[i].from)
			return stub_end(cudaErrorHostMemoryAlreadyRegistered);
	if (stub_count == stub_room) {
		size_t room = stub_room ? 2 * stub_room : 16;
		void *more = realloc(stub_ranges, room * sizeof *stub_ranges);
		if (!more)
			return stub_end(cudaErrorMemoryAllocation);
		*(void **)&stub_ranges = more;
		stub_room = room;
	}
	stub_ranges[stub_count].from = from;
	stub_ranges[stub_count].to = to;
	stub_ranges[stub_count++].at = (uintptr_t)at;
	return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *at) {
	size_t i;
	for (i = 0; i < stub_count; i++)
		if (stub_ranges[i].at == (uintptr_t)at) {
			stub_ranges[i] = stub_ranges[--stub_count];
			return cudaSuccess;
		}
	return stub_end(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void **to, void *at, unsigned flags) {
	size_t i;
	for (i = 0; !flags && i < stub_count; i++)
		if ((uintptr_t)at >= stub_ranges[i].from && (uintptr_t)at < stub_ranges[i].to) {
			*to = at;
			return cudaSuccess;
		}
	return stub_end(cudaErrorInvalidValue);
}

/* Memory of the GPU. */
cudaError_t cudaMalloc(void **to, size_t bytes) {
	*to = malloc(bytes);
	return stub_end(*to ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *at) {
	free(at);
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
	cudaError_t was = stub_last;
	stub_last = cudaSuccess;
	return was;
}

const char *cudaGetErrorString(cudaError_t error) {
	switch (error) {
	case cudaSuccess: return "no error";
	case cudaErrorInvalidValue: return "invalid argument";
	case cudaErrorMemoryAllocation: return "out of memory";
	case cudaErrorHostMemoryAlreadyRegistered: return "part or all of the requested memory range is already mapped";
	case cudaErrorHostMemoryNotRegistered: return "pointer does not correspond to a registered memory region";
	}
	return "unrecognized error code";
}
