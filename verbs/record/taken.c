/* Which completions the program may take, and which libmlx5 has removed. */
#include "record.h"

#include <endian.h>

enum { MASK = 0xffffff }; /* of an index in a doorbell record */

static uint32_t consumer(const struct nr_object *cq) {
	return be32toh(__atomic_load_n(cq->u.cq.record, __ATOMIC_ACQUIRE)) & MASK;
}

void nr_taken(struct nr_object *cq, uint32_t n) {
	if (n > cq->u.cq.count) { /* a handler of a signal has taken what was not copied */
		cq->u.cq.seen += n - cq->u.cq.count;
		n = cq->u.cq.count;
	}
	cq->u.cq.count -= n;
	cq->u.cq.at = (cq->u.cq.at + n) & (cq->u.cq.entries - 1);
}

uint32_t nr_ready(struct nr_object *cq) {
	uint32_t left, busy = cq->u.cq.promised + cq->u.cq.batch;
	if (cq->own && nr_missed(cq)) {
		nr_lost(cq->id, NR_LOST_OWN);
		cq->u.cq.entries = 0;
	}
	cq->own = false;
	nr_copy_completions(cq);
	if (!cq->u.cq.entries)
		return 0;
	left = ((uint32_t)cq->u.cq.seen - consumer(cq)) & MASK;
	/* Polls count only completions that they return: libmlx5 keeps some to itself. */
	if (!busy && !cq->u.cq.cleaning && left < cq->u.cq.count)
		nr_taken(cq, cq->u.cq.count - left);
	return cq->u.cq.count > cq->u.cq.promised ? cq->u.cq.count - cq->u.cq.promised : 0;
}

bool nr_missed(const struct nr_object *cq) {
	return (((uint32_t)cq->u.cq.seen - consumer(cq)) & MASK) > cq->u.cq.entries;
}

void nr_cleans(struct nr_object *cq) {
	if (cq->u.cq.cleaning++)
		return;
	cq->u.cq.taken = consumer(cq) + cq->u.cq.batch;
	cq->u.cq.within = cq->u.cq.batch;
}

/* Removes the copied entries of a QP, as __mlx5_cq_clean of libmlx5 has. */
static void forget(struct nr_object *cq, uint32_t number) {
	uint32_t mask = cq->u.cq.entries - 1, kept = 0;
	for (uint32_t i = 0; i < cq->u.cq.count; i++) {
		uint32_t x = cq->u.cq.copied[(cq->u.cq.at + i) & mask];
		if (x != number)
			cq->u.cq.copied[(cq->u.cq.at + kept++) & mask] = x;
	}
	cq->u.cq.count = kept;
}

void nr_cleaned(struct nr_object *cq, uint32_t number, bool done) {
	uint32_t now, more;
	cq->u.cq.cleaning--;
	if (!cq->u.cq.entries)
		return;
	if (done && !cq->u.cq.kept)
		forget(cq, number);
	if (cq->u.cq.cleaning)
		return;
	/* The consumer is as far as its last poll, or as far as libmlx5 has moved it beyond that. After it come
	 * the entries that were copied, which are there still, and then new ones. */
	now = consumer(cq) + (cq->u.cq.within ? 0 : cq->u.cq.batch);
	if ((now - cq->u.cq.taken) & (MASK + 1) >> 1)
		now = cq->u.cq.taken;
	more = (now + cq->u.cq.count - (uint32_t)cq->u.cq.seen) & MASK;
	if (done && !cq->u.cq.kept && more <= cq->u.cq.entries)
		cq->u.cq.seen += more;
}
