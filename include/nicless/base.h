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
 * On a GPU an access has a scope too. Words that the device reads or writes have system
 * scope, because the engine is a CPU thread. Words that only the posters and pollers of
 * a queue share (nicless_poster_ and nicless_ordered_) have NICLESS_POSTER_SCOPE, "gpu":
 * they are lanes of one GPU. If several GPUs, or a GPU and the host, post to one queue or
 * poll it while others post, define NICLESS_POSTER_SCOPE as "sys" before you include this
 * header. On a host there is one scope.
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

#ifndef NICLESS_POSTER_SCOPE
#define NICLESS_POSTER_SCOPE "gpu"
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
 * ordered load or swap comes after such a fence, and an ordered store is a release. Two
 * parties that each store one word and then load the other's have a fence between the
 * two, and at least one of them sees the other's store. An ordered load says only whether
 * there is something to do: on a GPU it acquires nothing.
 */
#if defined(NICLESS_ON_DEVICE)

/* Words of the device. */
NICLESS_HD void nicless_publish32(uint32_t *p, uint32_t v) {
	asm volatile("st.release.sys.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
NICLESS_HD void nicless_publish64(uint64_t *p, uint64_t v) {
	asm volatile("st.release.sys.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
NICLESS_HD uint32_t nicless_observe32(const uint32_t *p) {
	uint32_t v;
	asm volatile("ld.acquire.sys.b32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
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
/* Makes each later nicless_fenced_ store a release of everything before the fence. */
NICLESS_HD void nicless_system_fence(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
NICLESS_HD void nicless_fenced_store32(uint32_t *p, uint32_t v) {
	asm volatile("st.relaxed.sys.b32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
NICLESS_HD void nicless_fenced_store64(uint64_t *p, uint64_t v) {
	asm volatile("st.relaxed.sys.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Words of the posters and pollers of a queue. */
NICLESS_HD void nicless_poster_publish64(uint64_t *p, uint64_t v) {
	asm volatile("st.release." NICLESS_POSTER_SCOPE ".b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
NICLESS_HD uint64_t nicless_poster_observe64(const uint64_t *p) {
	uint64_t v;
	asm volatile("ld.acquire." NICLESS_POSTER_SCOPE ".b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}
NICLESS_HD void nicless_poster_store64(uint64_t *p, uint64_t v) {
	asm volatile("st.relaxed." NICLESS_POSTER_SCOPE ".b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
NICLESS_HD uint64_t nicless_poster_load64(const uint64_t *p) {
	uint64_t v;
	asm volatile("ld.relaxed." NICLESS_POSTER_SCOPE ".b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}
/* Store v if *p equals the argument old, and return whether they have. The first orders nothing else. */
NICLESS_HD int nicless_poster_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	uint64_t was;
	asm volatile("atom.relaxed." NICLESS_POSTER_SCOPE ".cas.b64 %0, [%1], %2, %3;"
	             : "=l"(was) : "l"(p), "l"(old), "l"(v) : "memory");
	return was == old;
}
NICLESS_HD int nicless_poster_publish_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	uint64_t was;
	asm volatile("atom.release." NICLESS_POSTER_SCOPE ".cas.b64 %0, [%1], %2, %3;"
	             : "=l"(was) : "l"(p), "l"(old), "l"(v) : "memory");
	return was == old;
}
NICLESS_HD void nicless_ordered_store64(uint64_t *p, uint64_t v) { nicless_poster_publish64(p, v); }
NICLESS_HD uint64_t nicless_ordered_load64(const uint64_t *p) {
	uint64_t v;
	asm volatile("fence.sc." NICLESS_POSTER_SCOPE ";\n\tld.relaxed." NICLESS_POSTER_SCOPE ".b64 %0, [%1];"
	             : "=l"(v) : "l"(p) : "memory");
	return v;
}
NICLESS_HD int nicless_ordered_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	uint64_t was;
	asm volatile("fence.sc." NICLESS_POSTER_SCOPE ";\n\tatom.acquire." NICLESS_POSTER_SCOPE
	             ".cas.b64 %0, [%1], %2, %3;"
	             : "=l"(was) : "l"(p), "l"(old), "l"(v) : "memory");
	return was == old;
}

#else

NICLESS_HD void nicless_publish32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
NICLESS_HD void nicless_publish64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
NICLESS_HD uint32_t nicless_observe32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
NICLESS_HD uint64_t nicless_observe64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
NICLESS_HD void nicless_store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
NICLESS_HD uint64_t nicless_load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
/* On a host a release costs no fence, so the stores after this fence are releases themselves. */
NICLESS_HD void nicless_system_fence(void) {}
NICLESS_HD void nicless_fenced_store32(uint32_t *p, uint32_t v) { nicless_publish32(p, v); }
NICLESS_HD void nicless_fenced_store64(uint64_t *p, uint64_t v) { nicless_publish64(p, v); }

NICLESS_HD void nicless_poster_publish64(uint64_t *p, uint64_t v) { nicless_publish64(p, v); }
NICLESS_HD uint64_t nicless_poster_observe64(const uint64_t *p) { return nicless_observe64(p); }
NICLESS_HD void nicless_poster_store64(uint64_t *p, uint64_t v) { nicless_store64(p, v); }
NICLESS_HD uint64_t nicless_poster_load64(const uint64_t *p) { return nicless_load64(p); }
/* Store v if *p equals the argument old, and return whether they have. The first orders nothing else. */
NICLESS_HD int nicless_poster_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	return __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
NICLESS_HD int nicless_poster_publish_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	return __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
NICLESS_HD void nicless_ordered_store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
NICLESS_HD uint64_t nicless_ordered_load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
NICLESS_HD int nicless_ordered_swap64(uint64_t *p, uint64_t old, uint64_t v) {
	return __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
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
