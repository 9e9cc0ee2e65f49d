/*
 * Pools of memory. A pool keeps nothing back: memory that is freed is the device's again when the stream gets
 * there, whatever the pool's threshold, so a pool is a device from which memory is taken.
 */
#include "runtime.h"

#include <stdlib.h>

enum { PINNED = 1, ON_DEVICE = 1 };

/* Of enum cudaMemPoolAttr. The three before are of reuse, and do nothing here. */
enum { REUSE_FIRST = 1, REUSE_LAST = 3, RELEASE_THRESHOLD = 4 };

/* The beginning of struct cudaMemPoolProps. */
struct pool_properties {
	int type, handles, place, device;
};

struct pool {
	int device;
	uint64_t threshold;
};

static int create(struct pool **pool, const struct pool_properties *p) {
	if (!pool || !p || p->type != PINNED || p->place != ON_DEVICE)
		return INVALID_VALUE;
	if (p->handles)
		return NOT_SUPPORTED; /* memory of a pool cannot be sent to other processes */
	if (p->device < 0 || p->device >= gpu_devices())
		return INVALID_DEVICE;
	*pool = calloc(1, sizeof **pool);
	if (!*pool)
		return 2; /* cudaErrorMemoryAllocation */
	(*pool)->device = p->device;
	return OK;
}

static int set(struct pool *pool, int attribute, const void *value) {
	if (!pool || !value || attribute < REUSE_FIRST || attribute > RELEASE_THRESHOLD)
		return INVALID_VALUE;
	if (attribute == RELEASE_THRESHOLD)
		pool->threshold = *(const uint64_t *)value;
	return OK;
}

static int get(const struct pool *pool, int attribute, void *value) {
	if (!pool || !value || attribute < REUSE_FIRST || attribute > RELEASE_THRESHOLD)
		return INVALID_VALUE;
	if (attribute == RELEASE_THRESHOLD)
		*(uint64_t *)value = pool->threshold;
	else
		*(int *)value = 1;
	return OK;
}

API cudaError_t cudaMemPoolCreate(struct pool **pool, const struct pool_properties *p) {
	return DO(create(pool, p));
}

API cudaError_t cudaMemPoolDestroy(struct pool *pool) {
	free(pool);
	return note(pool ? OK : INVALID_VALUE);
}

API cudaError_t cudaMemPoolSetAttribute(struct pool *pool, int attribute, void *value) {
	return DO(set(pool, attribute, value));
}

API cudaError_t cudaMemPoolGetAttribute(struct pool *pool, int attribute, void *value) {
	return DO(get(pool, attribute, value));
}

API cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, struct pool *pool, stream_t stream) {
	return DO(p && pool && n ? gpu_allocate_in(current, stream, pool->device, n, p) : INVALID_VALUE);
}
