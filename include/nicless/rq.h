/*
 * Functions for a receive queue with one poster. Its doorbell record is word 0 of the
 * QP's doorbell record. The queue has no register.
 */
#ifndef NICLESS_RQ_H
#define NICLESS_RQ_H

#include "formats.h"

struct nicless_rq {
	uint8_t *ring;    /* entries of stride bytes */
	uint64_t *id;     /* the id of the work request in each entry */
	uint32_t *record; /* the QP's doorbell record, two words */
	uint64_t size;    /* entries, a power of two */
	uint64_t stride;  /* bytes of an entry, 16 for each range of memory; a power of two */
	uint8_t pad0[64];

	uint64_t next; /* written by the poster: count of the next entry */
	uint8_t pad1[120];

	uint64_t posted; /* value of next when the record was last published; read by the poller */
	uint8_t pad2[120];

	uint64_t freed; /* written by the poller: every receive below this count has completed */
	uint8_t pad3[120];
};

/* Makes an empty queue. The array id needs one element for each entry of the ring. */
NICLESS_HD int nicless_rq_init(struct nicless_rq *q, void *ring, uint64_t size, uint64_t stride,
                               uint32_t *record, uint64_t *id) {
	if (size == 0 || size > NICLESS_MAX_RING || (size & (size - 1)) != 0)
		return -EINVAL;
	if (stride < NICLESS_UNIT || (stride & (stride - 1)) != 0)
		return -EINVAL;
	q->ring = (uint8_t *)ring;
	q->id = id;
	q->record = record;
	q->size = size;
	q->stride = stride;
	q->next = q->posted = q->freed = 0;
	return 0;
}

/*
 * Writes a receive. The next nicless_rq_ring notifies the device of it. Returns -EAGAIN
 * while the queue is full, and -EINVAL for a list of ranges that does not fit into an
 * entry. Neither error changes anything.
 */
NICLESS_HD int nicless_rq_post(struct nicless_rq *q, const struct nicless_sge *sge, uint32_t sges,
                               uint64_t id) {
	uint8_t *entry = q->ring + (q->next & (q->size - 1)) * q->stride;
	uint64_t at = 0;
	uint32_t i;
	if (sges > q->stride / NICLESS_UNIT)
		return -EINVAL;
	for (i = 0; i < sges; i++)
		if (sge[i].length > NICLESS_MAX_SGE_BYTES)
			return -EINVAL;
	if (q->next - nicless_poster_observe64(&q->freed) >= q->size)
		return -EAGAIN;
	for (i = 0; i < sges; i++) {
		if (sge[i].length == 0)
			continue;
		nicless_put_data(entry + at, sge[i].addr, sge[i].length, sge[i].lkey);
		at += NICLESS_UNIT;
	}
	if (at < q->stride)
		nicless_put_data(entry + at, 0, 0, NICLESS_KEY_END); /* ends the list; what follows is stale */
	q->id[q->next & (q->size - 1)] = id;
	q->next++;
	return 0;
}

/* Notifies the device of all receives posted, by publishing the record after the entries. */
NICLESS_HD void nicless_rq_ring(struct nicless_rq *q) {
	nicless_poster_store64(&q->posted, q->next);
	nicless_publish32(&q->record[NICLESS_REC_RECV], nicless_be32((uint16_t)q->next));
}

/*
 * Finds the receive that the wqe_counter of a CQE names, and frees this receive and all before it.
 * Only the poller calls this.
 */
NICLESS_HD int nicless_rq_complete(struct nicless_rq *q, uint16_t counter, uint64_t *id) {
	uint64_t count = nicless_extend(q->freed, counter);
	if (count >= nicless_poster_observe64(&q->posted))
		return -ENOENT;
	*id = q->id[count & (q->size - 1)];
	nicless_poster_publish64(&q->freed, count + 1);
	return 0;
}

#endif
