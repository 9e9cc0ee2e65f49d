/*
 * Operations by all threads of a warp or of a block together, for CUDA. Each thread calls
 * them with the same arguments, and each gets the result. Stores that any of them has made
 * before come before the operation, and what it has waited for is seen by all of them.
 *
 * One thread posts, because one WQE moves any number of bytes. No thread returns before the
 * two barriers of a form, whatever the result, so that the forms wait for no one else.
 */
#ifndef NICLESS_PE_GROUP_H
#define NICLESS_PE_GROUP_H

#if defined(__CUDACC__) || defined(__CUDA__)

#include "pe_atomic.h"
#include "pe_wait.h"

/* Returns the number of a thread in its block, and the number of threads of the block. */
__device__ static inline unsigned nicless_thread(void) {
	unsigned x, y, z, nx, ny;
	asm("mov.u32 %0, %%tid.x;" : "=r"(x));
	asm("mov.u32 %0, %%tid.y;" : "=r"(y));
	asm("mov.u32 %0, %%tid.z;" : "=r"(z));
	asm("mov.u32 %0, %%ntid.x;" : "=r"(nx));
	asm("mov.u32 %0, %%ntid.y;" : "=r"(ny));
	return (z * ny + y) * nx + x;
}
__device__ static inline unsigned nicless_threads(void) {
	unsigned x, y, z;
	asm("mov.u32 %0, %%ntid.x;" : "=r"(x));
	asm("mov.u32 %0, %%ntid.y;" : "=r"(y));
	asm("mov.u32 %0, %%ntid.z;" : "=r"(z));
	return x * y * z;
}

/* Returns a bit for each lane of the caller's warp: the last warp of a block may have fewer than 32. */
__device__ static inline unsigned nicless_warp_mask(void) {
	unsigned lanes = nicless_threads() - nicless_thread() / 32 * 32;
	return lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1;
}

/* Returns the value of lane 0 to all lanes, whose later loads come after what lane 0 has loaded. */
__device__ static inline uint64_t nicless_warp_value(uint64_t v) {
	unsigned mask = nicless_warp_mask();
	unsigned low = __shfl_sync(mask, (unsigned)v, 0), high = __shfl_sync(mask, (unsigned)(v >> 32), 0);
	__syncwarp(mask);
	return (uint64_t)high << 32 | low;
}

/*
 * Returns the value of thread 0 to all threads of the block. Each form begins with a
 * barrier, so no thread stores the next value while another has not loaded this one. The
 * variable is volatile because clang 14 moves a plain load of it before the barrier: nobody
 * else can name the variable, so clang believes that the barrier changes nothing in it.
 */
__device__ static inline uint64_t nicless_block_value(uint64_t v) {
	__shared__ volatile uint64_t shared;
	if (nicless_thread() == 0)
		shared = v;
	__syncthreads();
	return shared;
}

/* Makes nicless_NAME_warp and nicless_NAME_block of nicless_NAME, which returns a type. */
#define NICLESS_PE_GROUPS(name, type, parameters, arguments)       \
	__device__ static inline type nicless_##name##_warp parameters { \
		type result = 0;                                         \
		__syncwarp(nicless_warp_mask());                         \
		if (nicless_thread() % 32 == 0)                          \
			result = nicless_##name arguments;               \
		return (type)nicless_warp_value((uint64_t)result);       \
	}                                                                \
	__device__ static inline type nicless_##name##_block parameters { \
		type result = 0;                                         \
		__syncthreads();                                         \
		if (nicless_thread() == 0)                               \
			result = nicless_##name arguments;               \
		return (type)nicless_block_value((uint64_t)result);      \
	}

NICLESS_PE_GROUPS(putmem, int, (struct nicless_pe *me, void *dest, const void *source, size_t bytes, int pe),
                  (me, dest, source, bytes, pe))
NICLESS_PE_GROUPS(getmem, int, (struct nicless_pe *me, void *dest, const void *source, size_t bytes, int pe),
                  (me, dest, source, bytes, pe))
NICLESS_PE_GROUPS(putmem_signal, int,
                  (struct nicless_pe *me, void *dest, const void *source, size_t bytes, uint64_t *sig_addr,
                   uint64_t signal, int sig_op, int pe),
                  (me, dest, source, bytes, sig_addr, signal, sig_op, pe))
NICLESS_PE_GROUPS(signal_op, int,
                  (struct nicless_pe *me, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe),
                  (me, sig_addr, signal, sig_op, pe))
NICLESS_PE_GROUPS(signal_wait_until, uint64_t, (const uint64_t *sig_addr, int cmp, uint64_t value),
                  (sig_addr, cmp, value))
NICLESS_PE_GROUPS(uint64_wait_until, int, (const uint64_t *ivar, int cmp, uint64_t value), (ivar, cmp, value))
NICLESS_PE_GROUPS(uint32_wait_until, int, (const uint32_t *ivar, int cmp, uint32_t value), (ivar, cmp, value))
NICLESS_PE_GROUPS(quiet, int, (struct nicless_pe *me), (me))
NICLESS_PE_GROUPS(sync_all, int, (struct nicless_pe *me), (me))
NICLESS_PE_GROUPS(barrier_all, int, (struct nicless_pe *me), (me))

#endif

#endif
