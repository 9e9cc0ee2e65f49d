/* Functions that CUDA's runtime and driver share. They are two libraries, and each has these. */
#ifndef NICLESS_CUDA_COMMON_H
#define NICLESS_CUDA_COMMON_H

#include "../lib/gpu.h"

#define API __attribute__((visibility("default")))

/* Returns OK if the library works in this process: not in a child of fork, which has none of its threads. */
int gpu_ready(void);

/* Stores an attribute of a device, by its number in CUDA's headers. */
int gpu_attribute(int *value, int number, int device);

/* Stores how many blocks of a kernel a multiprocessor has at a time. */
int gpu_occupancy(int *n, int device, void *stub, int block, uint64_t shared);

#endif
