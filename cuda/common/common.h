/* Functions that CUDA's runtime and driver share. They are two libraries, and each has these. */
#ifndef NICLESS_CUDA_COMMON_H
#define NICLESS_CUDA_COMMON_H

#include "../lib/gpu.h"

#define API __attribute__((visibility("default")))

/* Returns OK if the library works in this process: not in a child of fork, which has none of its threads. */
int gpu_ready(void);

/* Stores an attribute of a device, by its number in CUDA's headers. */
int gpu_attribute(int *value, int number, int device);

/* A handle of memory for another process, which opens the descriptor by its name below /proc. */
struct gpu_shared {
	char magic[8];
	int pid, fd;
	uint64_t offset, size;
	uint64_t inode; /* of the file: another one may have the descriptor when the memory has been given back */
	char rest[24];
};

/* Calls a function of the program once a stream has done what it was told before; flags are 0. */
int gpu_add_callback(int device, uint64_t stream, void (*f)(uint64_t stream, int status, void *with), void *with,
                     unsigned flags);

/* Makes a handle of memory that begins at an address. It is valid until the memory is given back. */
int gpu_share(struct gpu_shared *h, uint64_t at);

/*
 * Maps the memory of a handle for the thread's device, until gpu_detach_shared. INVALID_CONTEXT: it is memory
 * of this process. INVALID_HANDLE: its process has ended, or has given it back.
 */
int gpu_attach_shared(uint64_t *at, const struct gpu_shared *h);
int gpu_detach_shared(uint64_t at);

/* Sets an attribute of a kernel, by its number in CUDA's headers. */
int gpu_set_function_attribute(int device, void *stub, int number, int value);

#endif
