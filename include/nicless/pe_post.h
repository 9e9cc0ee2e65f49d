/*
 * The inside of the put library: how an operation finds its addresses, is posted, waits,
 * and gets a result. put.h has the operations.
 *
 * No thread holds anything while it waits for another thread. A result word is held by
 * an operation that is posted, and which only the device can delay. So lanes of one warp
 * that go different ways cannot block each other.
 */
#ifndef NICLESS_PE_POST_H
#define NICLESS_PE_POST_H

#include "pe.h"
#include "post.h"

#if !defined(NICLESS_ON_DEVICE)
#include <sched.h>
#endif

/* Bytes of one WRITE or READ; longer ones are cut. A message has at most 2^31 bytes. Tests define less. */
#ifndef NICLESS_PE_CHUNK
#define NICLESS_PE_CHUNK ((uint64_t)1 << 30)
#endif

/*
 * Lets others run while a thread waits: on a host every 64th time, where PEs and engine
 * may have fewer cores than there are of them. polls counts the times.
 */
NICLESS_HD void nicless_pe_pause(uint32_t *polls) {
	++*polls;
#if !defined(NICLESS_ON_DEVICE)
	if (*polls % 64 == 0)
		sched_yield();
#endif
}

/* Finds the way to a PE. Returns -EINVAL if there is no such PE. */
NICLESS_HD int nicless_pe_peer(struct nicless_pe *me, int pe, struct nicless_peer **p) {
	if (pe < 0 || pe >= me->n_pes)
		return -EINVAL;
	*p = &me->peer[pe];
	return 0;
}

/* Finds where in the symmetric heap an object of so many bytes is. Returns -EINVAL if it is not inside. */
NICLESS_HD int nicless_pe_find(const struct nicless_pe *me, const void *at, uint64_t bytes,
                               uint64_t *offset) {
	*offset = (uint64_t)((uintptr_t)at - (uintptr_t)me->heap); /* below the heap it exceeds any size */
	return *offset > me->size || bytes > me->size - *offset ? -EINVAL : 0;
}

/* The same for a word of 8 bytes that is accessed atomically, at a multiple of 8. */
NICLESS_HD int nicless_pe_find_word(const struct nicless_pe *me, const void *at, uint64_t *offset) {
	return (uintptr_t)at % 8 ? -EINVAL : nicless_pe_find(me, at, 8, offset);
}

/* Looks for completions. Returns -EIO if the queue has failed, and keeps why: all threads store the same. */
NICLESS_HD int nicless_pe_look(struct nicless_peer *p) {
	struct nicless_wc wc;
	if (nicless_cq_advance(&p->cq, &p->sq, &wc) == 0)
		return 0;
	nicless_poster_store64(&p->vendor, wc.vendor);
	nicless_poster_store64(&p->counter, wc.counter);
	nicless_poster_publish64(&p->syndrome, wc.syndrome);
	return -EIO;
}

/* Waits until all blocks below count have completed, or the queue has failed (-EIO). */
NICLESS_HD int nicless_pe_await(struct nicless_peer *p, uint64_t count) {
	uint32_t polls = 0;
	while (nicless_poster_observe64(&p->sq.freed) < count) {
		if (nicless_pe_look(p) != 0)
			return -EIO;
		nicless_pe_pause(&polls);
	}
	return 0;
}

/*
 * Posts n work requests, 1 or 2, in one reservation with one doorbell, and stores the
 * count after them. Waits while the queue is full: for the device alone, because every
 * block of the queue has been rung, or will be by the thread that has reserved it.
 */
NICLESS_HD int nicless_pe_post(struct nicless_peer *p, struct nicless_wr *wr, uint64_t n, uint64_t *end) {
	uint64_t i, first;
	uint32_t polls = 0;
	if (nicless_poster_load64(&p->syndrome) != 0)
		return -EIO;
	while (!nicless_sq_reserve(&p->sq, n, &first)) {
		if (nicless_pe_look(p) != 0)
			return -EIO;
		nicless_pe_pause(&polls);
	}
	wr[n - 1].fm_ce_se = NICLESS_SIGNALED;
	for (i = 0; i < n; i++)
		nicless_sq_write(&p->sq, first + i, &wr[i], (uint32_t)nicless_wr_units(&wr[i]));
	nicless_sq_commit(&p->sq, first, n);
	nicless_sq_ring(&p->sq);
	*end = first + n;
	return 0;
}

/* Makes a request without operands to the word or object at an offset of the heap of a PE. */
NICLESS_HD void nicless_pe_request(struct nicless_wr *wr, const struct nicless_peer *p, uint8_t opcode,
                                   uint64_t offset) {
	wr->id = 0;
	wr->opcode = opcode;
	wr->fm_ce_se = 0;
	wr->imm = 0;
	wr->rkey = (uint32_t)p->rkey;
	wr->raddr = p->far + offset;
	wr->swap_add = wr->compare = 0;
	wr->sge = 0;
	wr->sges = 0;
	wr->inline_bytes = 0;
	wr->data = 0;
}

/* Adds the memory of this PE that the request reads or fills, at an offset of its heap. */
NICLESS_HD void nicless_pe_attach(const struct nicless_pe *me, struct nicless_wr *wr, struct nicless_sge *sge,
                                  uint64_t offset, uint64_t bytes) {
	sge->addr = me->base + offset;
	sge->length = (uint32_t)bytes;
	sge->lkey = (uint32_t)me->lkey;
	wr->sge = sge;
	wr->sges = 1;
}

/* Returns the offset in the heap of a word of the library, which is before the heap's first byte. */
NICLESS_HD uint64_t nicless_pe_own(uint64_t word) { return word - NICLESS_PE_RESERVED; }

/*
 * Claims one of the words for results. If operations use all of them, waits until one
 * ends. The words are searched from the place that the next WQE has in its queue, so that
 * threads rarely try the same one.
 */
NICLESS_HD uint64_t nicless_pe_claim(struct nicless_pe *me, struct nicless_peer *p) {
	uint64_t i = nicless_poster_load64(&p->sq.reserved);
	uint32_t polls = 0;
	for (;; i++) {
		uint64_t *claim = &me->claim[i % NICLESS_PE_RESULTS];
		if (nicless_poster_load64(claim) == 0 && nicless_ordered_swap64(claim, 0, 1))
			return i % NICLESS_PE_RESULTS;
		nicless_pe_pause(&polls);
	}
}

/*
 * Posts a request that brings 1 to 8 bytes back, waits for them, and stores them in
 * *result, of which the other bytes are not defined. A failed queue stores nothing into
 * the result word any more, so the word is free also after an error.
 */
NICLESS_HD int nicless_pe_result(struct nicless_pe *me, struct nicless_peer *p, struct nicless_wr *wr,
                                 uint64_t bytes, uint64_t *result) {
	uint64_t k = nicless_pe_claim(me, p), end, at = NICLESS_PE_RESULTS_AT + 8 * k;
	struct nicless_sge sge;
	int error;
	nicless_pe_attach(me, wr, &sge, nicless_pe_own(at), bytes);
	error = nicless_pe_post(p, wr, 1, &end);
	if (error == 0)
		error = nicless_pe_await(p, end);
	if (error == 0)
		*result = nicless_load64((const uint64_t *)(const void *)(me->heap - NICLESS_PE_RESERVED + at));
	nicless_poster_publish64(&me->claim[k], 0); /* after the load: the next result comes into this word */
	return error;
}

#endif
