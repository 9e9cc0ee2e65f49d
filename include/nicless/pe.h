/*
 * A processing element (PE) of a put library, as its threads see it: a symmetric heap,
 * and one send queue to each PE, itself included. put.h has the operations. pes.h makes
 * the PE of a host process, or the plan from which a GPU makes it.
 *
 * A symmetric heap has the same size on each PE. An object is at the same offset on all
 * of them, so a pointer into one's own heap names the object of every PE.
 *
 * Any number of threads may use a PE at once. They are threads of one process, or lanes
 * of one GPU (NICLESS_POSTER_SCOPE in base.h): a PE of a GPU has its words in the GPU's
 * memory, and is used by no thread of the host.
 */
#ifndef NICLESS_PE_H
#define NICLESS_PE_H

#include "cq.h"

/*
 * The first bytes of each heap belong to this library. No operation takes an address
 * there. Offsets of words of 8 bytes:
 */
enum {
	NICLESS_PE_RESERVED = 4096,  /* bytes that belong to the library */
	NICLESS_PE_ROUNDS = 0,       /* 32 words, one for each round of a barrier; other PEs write them */
	NICLESS_PE_DISCARD = 512,    /* one word for old values that nobody reads */
	NICLESS_PE_RESULTS_AT = 2048,
	NICLESS_PE_RESULTS = 256     /* words for results, for as many operations at once */
};

enum { NICLESS_PE_MOST = 1 << 16 }; /* the most PEs */

/* A queue of a plan. Addresses are those of the PE's threads, except far. */
struct nicless_pe_link {
	uint64_t ring, record; /* of the send queue */
	uint64_t reg;          /* its doorbell register; 0: the record is enough */
	uint64_t cqe;          /* the entry of a collapsed CQ that has completions of this queue only */
	uint64_t far;          /* address of the other PE's heap, as WQEs name it */
	uint32_t rkey;         /* of that heap */
	uint32_t qpn;
};

/* All that a PE is made of. The links follow, one for each PE. */
struct nicless_pe_plan {
	uint64_t heap;   /* address of the heap for the threads of this PE, a multiple of 8 */
	uint64_t base;   /* the same, as WQEs name it */
	uint64_t bytes;  /* of the heap, with those of the library */
	uint64_t blocks; /* of each queue: a power of two, 2 to NICLESS_MAX_RING */
	uint32_t lkey;   /* of the heap */
	int32_t my_pe, n_pes;
	uint32_t pad;
};

NICLESS_ASSERT(pe_link_size, sizeof(struct nicless_pe_link) == 48);
NICLESS_ASSERT(pe_plan_size, sizeof(struct nicless_pe_plan) == 48);

/* The way to one PE. Each WQE has one block. The last of each reservation is signaled. */
struct nicless_peer {
	struct nicless_sq sq;
	struct nicless_cq cq; /* collapsed; for sq only */
	uint64_t far;         /* address of that PE's heap in WQEs, without the bytes of the library */
	uint64_t rkey;

	/* The completion that failed, after which nothing is posted any more. */
	uint64_t syndrome; /* 0: none has */
	uint64_t vendor;   /* the vendor's syndrome */
	uint64_t counter;  /* the index of its WQE */
};

struct nicless_pe {
	int32_t my_pe, n_pes;
	uint8_t *heap; /* one's own symmetric heap, without the bytes of the library */
	uint64_t size; /* bytes from there on */
	uint64_t base; /* address of heap in WQEs */
	uint64_t lkey;
	uint64_t epoch;            /* number of barriers so far */
	struct nicless_peer *peer; /* n_pes of them */
	uint64_t *claim;           /* for each result word, 1 while an operation uses it */
};

/* Returns how many bytes nicless_pe_init needs, for n_pes PEs and queues of so many blocks. */
NICLESS_HD size_t nicless_pe_memory(int n_pes, uint64_t blocks) {
	return sizeof(struct nicless_pe) + NICLESS_PE_RESULTS * sizeof(uint64_t) +
	       (size_t)n_pes * (sizeof(struct nicless_peer) + nicless_sq_memory(blocks));
}

/* Makes the queue to one PE. memory is nicless_sq_memory(blocks) bytes. */
NICLESS_HD int nicless_peer_init(struct nicless_peer *p, const struct nicless_pe_link *l, uint64_t blocks,
                                 void *memory) {
	p->cq.ring = (uint8_t *)(uintptr_t)l->cqe; /* the host initialized the entry before it made the CQ */
	p->cq.record = 0;
	p->cq.log = 0;
	p->cq.stride = NICLESS_CQE;
	p->cq.ci = 0;
	p->cq.status = 0;
	p->cq.status_size = 0;
	p->far = l->far + NICLESS_PE_RESERVED;
	p->rkey = l->rkey;
	p->syndrome = p->vendor = p->counter = 0;
	return nicless_sq_init(&p->sq, (void *)(uintptr_t)l->ring, blocks, (uint32_t *)(uintptr_t)l->record,
	                       (void *)(uintptr_t)l->reg, l->qpn, memory);
}

/*
 * Makes a PE in nicless_pe_memory bytes at pe, which are aligned to 8. One thread calls
 * this once for a plan, before all other use: on a GPU one lane of a kernel, after which
 * other kernels use the PE. Returns -EINVAL for a plan that is impossible.
 */
NICLESS_HD int nicless_pe_init(struct nicless_pe *pe, const struct nicless_pe_plan *plan) {
	const struct nicless_pe_link *link = (const struct nicless_pe_link *)(const void *)(plan + 1);
	uint8_t *memory;
	int32_t i, n = plan->n_pes;
	if (n < 1 || n > NICLESS_PE_MOST || plan->my_pe < 0 || plan->my_pe >= n)
		return -EINVAL;
	if (plan->blocks < 2 || plan->bytes <= NICLESS_PE_RESERVED)
		return -EINVAL;
	pe->my_pe = plan->my_pe;
	pe->n_pes = n;
	pe->heap = (uint8_t *)(uintptr_t)plan->heap + NICLESS_PE_RESERVED;
	pe->size = plan->bytes - NICLESS_PE_RESERVED;
	pe->base = plan->base + NICLESS_PE_RESERVED;
	pe->lkey = plan->lkey;
	pe->epoch = 0;
	pe->peer = (struct nicless_peer *)(void *)(pe + 1);
	pe->claim = (uint64_t *)(void *)(pe->peer + n);
	for (i = 0; i < NICLESS_PE_RESULTS; i++)
		pe->claim[i] = 0;
	memory = (uint8_t *)(pe->claim + NICLESS_PE_RESULTS);
	for (i = 0; i < n; i++, memory += nicless_sq_memory(plan->blocks))
		if (nicless_peer_init(&pe->peer[i], &link[i], plan->blocks, memory) != 0)
			return -EINVAL;
	return 0;
}

NICLESS_HD int nicless_my_pe(const struct nicless_pe *me) { return me->my_pe; }
NICLESS_HD int nicless_n_pes(const struct nicless_pe *me) { return me->n_pes; }

/* Returns the syndrome of the completion by which the queue to a PE has failed, or 0. */
NICLESS_HD uint8_t nicless_pe_syndrome(const struct nicless_pe *me, int pe) {
	return (uint8_t)(pe < 0 || pe >= me->n_pes ? 0 : nicless_poster_observe64(&me->peer[pe].syndrome));
}

#endif
