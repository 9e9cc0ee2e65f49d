/*
 * Access to shared memory in C: byte order and memory order, on hosts and on GPUs.
 *
 * A CUDA kernel can do everything that a poster does. Therefore each function is
 * NICLESS_HD: __host__ __device__ under a CUDA compiler, and plain C or C++ otherwise.
 * Words that two parties share are accessed only through the functions below. Their
 * names say what they order, as in docs/ORDERING.md:
 *
 *   publish   a store that comes after all earlier stores of its caller (release)
 *   observe   a load that comes before all later loads of its caller (acquire)
 *   ordered   all such accesses happen in one total order (sequentially consistent)
 *
 * On a GPU the scope is always the system, because the engine is a CPU thread.
 */
#ifndef NICLESS_BASE_H
#define NICLESS_BASE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(__CUDA__)
#define NICLESS_HD __host__ __device__ static inline
#else
#define NICLESS_HD static inline
#endif

#if defined(__CUDA_ARCH__)
#define NICLESS_ON_DEVICE 1
#if __CUDA_ARCH__ < 700
#error "nicless: release and acquire at system scope need sm_70 (Volta) or later"
#endif
#endif

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "nicless: a little-endian machine and a compiler of the GNU kind are needed"
#endif

/* C99 has no static assertion. An array of negative size is a compile error too. */
#if defined(__cplusplus)
#define NICLESS_ASSERT(name, is) static_assert(is, #name)
#else
#define NICLESS_ASSERT(name, is) typedef char nicless_assert_##name[(is) ? 1 : -1]
#endif

/* Words of a ring. A ring is a byte array, so these types may alias bytes. */
typedef uint64_t __attribute__((__may_alias__)) nicless_word64;
typedef uint32_t __attribute__((__may_alias__)) nicless_word32;

/* Convert between host order and the big-endian order of the mlx5 formats. */
NICLESS_HD uint16_t nicless_be16(uint16_t v) { return (uint16_t)(v << 8 | v >> 8); }

NICLESS_HD uint32_t nicless_be32(uint32_t v) {
	return v << 24 | (v & 0xff00) << 8 | (v >> 8 & 0xff00) | v >> 24;
}

NICLESS_HD uint64_t nicless_be64(uint64_t v) {
	return (uint64_t)nicless_be32((uint32_t)v) << 32 | nicless_be32((uint32_t)(v >> 32));
}

/*
 * PTX has no total order of single accesses, only one of fence.sc instructions. So an
 * ordered access is an access after such a fence. The fence orders the access after
 * all earlier ordered accesses.
 */
#if defined(NICLESS_ON_DEVICE)

NICLESS_HD void nicless_publish32(uint32_t *p, uint32_t v) {
	asm volatile("st.release.sys.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
NICLESS_HD void nicless_publish64(uint64_t *p, uint64_t v) {
	asm volatile("st.release.sys.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
NICLESS_HD uint64_t nicless_observe64(const uint64_t *p) {
	uint64_t v;
	asm volatile("ld.acquire.sys.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}
NICLESS_HD void nicless_store64(uint64_t *p, uint64_t v) {
	asm volatile("st.relaxed.sys.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
NICLESS_HD uint64_t nicless_load64(const uint64_t *p) {
	uint64_t v;
	asm volatile("ld.relaxed.sys.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}
NICLESS_HD void nicless_ordered_store64(uint64_t *p, uint64_t v) {
	asm volatile("fence.sc.sys;\n\tst.relaxed.sys.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
NICLESS_HD uint64_t nicless_ordered_load64(const uint64_t *p) {
	uint64_t v;
	asm volatile("fence.sc.sys;\n\tld.acquire.sys.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}
/* Stores v if *p equals the argument old, and returns whether it has stored v. */
NICLESS_HD int nicless_ordered_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	uint64_t was;
	asm volatile("fence.sc.sys;\n\tatom.acq_rel.sys.cas.b64 %0, [%1], %2, %3;"
	             : "=l"(was) : "l"(p), "l"(old), "l"(v) : "memory");
	return was == old;
}
/* Does the same as nicless_ordered_swap64, but with acquire order only. */
NICLESS_HD int nicless_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	uint64_t was;
	asm volatile("atom.acquire.sys.cas.b64 %0, [%1], %2, %3;"
	             : "=l"(was) : "l"(p), "l"(old), "l"(v) : "memory");
	return was == old;
}

#else

NICLESS_HD void nicless_publish32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
NICLESS_HD void nicless_publish64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
NICLESS_HD uint64_t nicless_observe64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
NICLESS_HD void nicless_store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
NICLESS_HD uint64_t nicless_load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
NICLESS_HD void nicless_ordered_store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
NICLESS_HD uint64_t nicless_ordered_load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
/* Stores v if *p equals the argument old, and returns whether it has stored v. */
NICLESS_HD int nicless_ordered_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	return __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
/* Does the same as nicless_ordered_swap64, but with acquire order only. */
NICLESS_HD int nicless_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	return __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

#endif

/* Stores one segment of 16 bytes with two 8-byte stores. first and second are in host order. */
NICLESS_HD void nicless_put16(void *at, uint64_t first, uint64_t second) {
	nicless_word64 *w = (nicless_word64 *)at;
	w[0] = nicless_be64(first);
	w[1] = nicless_be64(second);
}

/* Returns the smallest 64-bit count that is not less than `from` and whose low 16 bits equal `low`. */
NICLESS_HD uint64_t nicless_extend(uint64_t from, uint16_t low) {
	return from + (uint16_t)(low - (uint16_t)from);
}

#endif
