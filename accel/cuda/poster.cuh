/*
 * The device code of poster.cu. Lanes post RDMA WRITEs with the functions of
 * include/nicless and wait for the completions, without the CPU.
 */
#ifndef NICLESS_POSTER_CUH
#define NICLESS_POSTER_CUH

#include <nicless/cq.h>
#include <nicless/post.h>

/*
 * A queue in GPU memory. The words of sq are in GPU memory because the GPU's atomics on
 * its own memory are native. Its atomics on host memory across PCIe need not be native.
 * Ring, record and CQE are in host memory; the pointers to them are the GPU's addresses.
 */
struct poster {
	struct nicless_sq sq;
	struct nicless_cq cq; /* collapsed; for sq only */
	uint64_t *from, *to;  /* the payload: the GPU's addresses */
	uint64_t far_from, far_to; /* the payload: the addresses in WQEs */
	uint32_t key;
	unsigned wrong;    /* words with the wrong value */
	unsigned syndrome; /* the syndrome of a completion with an error, or 0 */
};

enum { LANES = 32 };

__device__ static inline uint64_t nanoseconds() {
	uint64_t t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

/* Initializes the queue by nicless_sq_init, on the GPU because the queue's words are in GPU memory. */
__global__ void prepare(struct poster *p, void *ring, uint64_t blocks, uint32_t *record, void *reg,
                        uint32_t qpn, void *memory, uint8_t *cqe) {
	nicless_sq_init(&p->sq, ring, blocks, record, reg, qpn, memory);
	p->cq.ring = cqe; /* the host initialized the CQE before it made the CQ */
	p->cq.log = 0;
	p->cq.stride = NICLESS_CQE;
	p->wrong = p->syndrome = 0;
}

/*
 * Reserves n blocks, waiting for room if necessary. Returns 0 if the queue has failed. It does not ring,
 * because whoever has reserved blocks of this queue rings without waiting for anything.
 */
__device__ static inline int room(struct poster *p, uint64_t n, uint64_t *first) {
	while (!nicless_sq_reserve(&p->sq, n, first)) {
		if (nicless_cq_advance(&p->cq, &p->sq, 0) != 0)
			return 0;
	}
	return 1;
}

/* Writes the WQE of an 8-byte WRITE of word i into the reserved block with number count. */
__device__ static inline void write_word(struct poster *p, uint64_t count, uint64_t i, uint64_t value,
                                         uint8_t flags) {
	struct nicless_sge sge = {p->far_from + 8 * i, 8, p->key};
	struct nicless_wr wr = {};
	wr.id = i;
	wr.opcode = NICLESS_WRITE;
	wr.fm_ce_se = flags;
	wr.sge = &sge;
	wr.sges = 1;
	wr.raddr = p->far_to + 8 * i;
	wr.rkey = p->key;
	p->from[i] = value; /* a plain store: the commit comes after it */
	nicless_sq_write(&p->sq, count, &wr, 3);
}

__device__ static inline void failed(struct poster *p, const struct nicless_wc *wc) {
	p->syndrome = wc->syndrome ? wc->syndrome : 0xff;
}

/*
 * Runs the rounds of all parties. A party is one lane or one warp. In each round a
 * party reserves once, every lane writes its WQE, and the party commits once, rings
 * once and waits for the completion. took[party * rounds + r] is the time, in ns of the
 * GPU's clock, from before the first store to the completion.
 */
__global__ void put(struct poster *p, uint64_t rounds, uint64_t *took) {
	unsigned lanes = blockDim.x < LANES ? 1 : LANES, lane = threadIdx.x % lanes;
	uint64_t party = (uint64_t)blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes, r;
	uint64_t word = party * lanes + lane;
	for (r = 0; r < rounds; r++) {
		uint64_t first = 0, begin = nanoseconds(), value = r << 32 | (word + 1);
		unsigned ok = 1;
		struct nicless_wc wc;
		if (lane == 0)
			ok = (unsigned)room(p, lanes, &first);
		if (lanes > 1) {
			ok = __shfl_sync(0xffffffff, ok, 0);
			first = (uint64_t)__shfl_sync(0xffffffff, (unsigned)(first >> 32), 0) << 32 |
			        __shfl_sync(0xffffffff, (unsigned)first, 0);
		}
		if (!ok)
			return;
		write_word(p, first + lane, word, value, lane == lanes - 1 ? NICLESS_SIGNALED : 0);
		if (lanes > 1)
			__syncwarp(); /* orders the stores of the lanes before the commit of lane 0 */
		if (lane == 0) {
			nicless_sq_commit(&p->sq, first, lanes);
			nicless_sq_ring(&p->sq);
			ok = nicless_cq_quiet(&p->cq, &p->sq, first + lanes, &wc) == 0;
			if (ok)
				took[party * rounds + r] = nanoseconds() - begin;
			else
				failed(p, &wc);
		}
		if (lanes > 1) {
			ok = __shfl_sync(0xffffffff, ok, 0);
			__syncwarp(); /* orders the CQE, which lane 0 has observed, before the loads of the lanes */
		}
		if (!ok)
			return;
		if (nicless_load64(&p->to[word]) != value)
			atomicAdd(&p->wrong, 1);
	}
}

#endif
