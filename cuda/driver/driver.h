/*
 * Declarations for the files of CUDA's driver. The functions, types and numbers are those of CUDA's headers,
 * declared here again because the headers are not free. Handles are pointers there, and numbers here.
 */
#ifndef NICLESS_CUDA_DRIVER_H
#define NICLESS_CUDA_DRIVER_H

#include "../common/common.h"

#include <stddef.h>

typedef int CUresult, CUdevice;
typedef uint64_t CUdeviceptr, CUstream, CUevent, CUmodule, CUfunction;

enum { MOST_DEVICES = 16 };

/*
 * A context is a device, as a thread sees it. Its handle is made of a number that no other one ever has
 * (context.c), so one of a context that was destroyed is recognised.
 */
typedef struct handle_of_context *CUcontext;

/* Returns OK once cuInit was called, by the program or by the runtime. */
int started(void);

/* Returns OK if the thread has a context: INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED after its end. */
int bound(void);

#define STARTED(call) (started() ? NOT_INITIALIZED : (call))
#define BOUND(call) (started() ? NOT_INITIALIZED : bound() != OK ? bound() : (call))
#define HERE gpu_current()

static inline void *to_pointer(uint64_t address) { return (void *)(uintptr_t)address; }
static inline uint64_t to_address(const void *p) { return (uint64_t)(uintptr_t)p; }

#endif
