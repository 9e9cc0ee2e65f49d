/*
 * Declarations for the files of CUDA's runtime. The functions, types and numbers are those of CUDA's headers,
 * declared here again because the headers are not free. CUDART is the major version for which this is
 * compiled: 11, 12 or 13.
 *
 * Each thread has a device, which cudaSetDevice chooses, and the error of its last call.
 */
#ifndef NICLESS_CUDA_RUNTIME_H
#define NICLESS_CUDA_RUNTIME_H

#include "../common/common.h"

typedef int cudaError_t;

enum { VERSION = CUDART * 1000 };
typedef uint64_t stream_t, event_t; /* handles, which are pointers in the headers */
typedef struct { unsigned x, y, z; } dim3;

/* The thread's device, for a call that needs one. For the driver it is the thread's context from then on. */
int device_of_thread(void);
#define current device_of_thread()

extern __thread int last;

/* Remembers an error as the thread's last one, and returns it. */
cudaError_t note(int error);

/* Returns OK if the library works. The driver is initialised then, as by cuInit. */
int ready(void);

/* Calls a function of gpu.h, if the library works. */
#define DO(call) note(ready() ? NOT_INITIALIZED : (call))

/*
 * The stub of a kernel, or the shadow of a variable, as this runtime knows it. Libraries with runtimes
 * of their own may have the same stub for kernels of the same name: the linker takes the first for all.
 * No address of a process has the bits that the version is in.
 */
static inline void *own(const void *stub) {
	return (void *)((uintptr_t)stub ^ (uintptr_t)CUDART << 56);
}

API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int way, stream_t stream);

#endif
