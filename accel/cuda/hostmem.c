/*
 * A library to preload, for programs that allocate queues and payload in GPU memory, as DOCA GPUNetIO does.
 * The engine reaches host memory only, because the driver's dma-bufs cannot be mapped. So cudaMalloc of a
 * page or more returns memory that is shared with the engine (nicless_alloc) and registered with CUDA.
 * Smaller blocks stay on the GPU: they have the words that posters share by atomics. The GPU reaches all of
 * it by the same address. It works for programs with the shared CUDA runtime (nvcc -cudart shared) that
 * call cudaMalloc, not for cuMemAlloc, cudaMallocAsync or cudaMallocManaged, and not across cudaDeviceReset.
 *
 *   gcc -shared -fPIC -o hostmem.so accel/cuda/hostmem.c -ldl
 *   LD_PRELOAD=$PWD/hostmem.so nicless run -- PROGRAM
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Values of cudaError_t, of the flags of cudaHostRegister, and of CUresult. */
enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, PORTABLE_MAPPED = 3, NOT_FOUND = 500 };
enum { PAGE = 4096 };

struct block {
	struct block *next;
	uintptr_t at;
	size_t bytes;
};

static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Store in *f, a pointer to a function, the function with a name: of CUDA, and of nicless, whose library is
 * loaded before this one. Return 0 if there is none. */
static int next(void *f, const char *name) {
	*(void **)f = dlsym(RTLD_NEXT, name);
	return *(void **)f != NULL;
}

static int nicless(void *f, const char *name) {
	*(void **)f = dlsym(RTLD_DEFAULT, name);
	return *(void **)f != NULL;
}

/* Returns the link to the block that has the address, or to the end. The lock is held. */
static struct block **find(uintptr_t at) {
	struct block **b = &blocks;
	while (*b && (at < (*b)->at || at >= (*b)->at + (*b)->bytes))
		b = &(*b)->next;
	return b;
}

int cudaMalloc(void **at, size_t bytes) {
	int (*real)(void **, size_t), (*enroll)(void *, size_t, unsigned), (*give)(void *), error;
	void *(*take)(size_t);
	struct block *made;
	if (!at)
		return INVALID_VALUE;
	if (bytes < PAGE || !nicless(&take, "nicless_alloc") || !nicless(&give, "nicless_free") ||
	    !next(&enroll, "cudaHostRegister"))
		return next(&real, "cudaMalloc") ? real(at, bytes) : OUT_OF_MEMORY;
	made = malloc(sizeof *made);
	if (!made)
		return OUT_OF_MEMORY;
	*at = take(bytes);
	error = *at ? enroll(*at, bytes, PORTABLE_MAPPED) : OUT_OF_MEMORY;
	if (error) {
		if (*at)
			give(*at);
		free(made);
		*at = NULL;
		return error;
	}
	made->at = (uintptr_t)*at;
	made->bytes = bytes;
	pthread_mutex_lock(&lock);
	made->next = blocks;
	blocks = made;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

int cudaFree(void *at) {
	int (*real)(void *), (*dismiss)(void *), (*give)(void *), error;
	struct block **link, *b;
	pthread_mutex_lock(&lock);
	link = find((uintptr_t)at);
	b = *link;
	if (b && b->at == (uintptr_t)at)
		*link = b->next;
	else
		b = NULL;
	pthread_mutex_unlock(&lock);
	if (!b)
		return next(&real, "cudaFree") ? real(at) : SUCCESS;
	free(b);
	error = next(&dismiss, "cudaHostUnregister") ? dismiss(at) : SUCCESS;
	if (nicless(&give, "nicless_free"))
		give(at);
	return error;
}

/* Attributes of GPU memory, such as CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, mean nothing for host memory. */
int cuPointerSetAttribute(const void *value, int attribute, unsigned long long at) {
	int (*real)(const void *, int, unsigned long long), ours;
	pthread_mutex_lock(&lock);
	ours = *find((uintptr_t)at) != NULL;
	pthread_mutex_unlock(&lock);
	if (ours)
		return SUCCESS;
	return next(&real, "cuPointerSetAttribute") ? real(value, attribute, at) : NOT_FOUND;
}
