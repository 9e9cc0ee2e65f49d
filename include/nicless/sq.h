/*
 * A send queue with any number of posters.
 *
 *   reserve   takes blocks of the ring, by compare-and-swap
 *   write     fills them with WQEs, by plain stores
 *   commit    stamps the reservation as written
 *   ring      tells the device of all blocks committed without a gap
 *
 * Posters take these steps in any order among themselves, and no poster waits for
 * another. A poster that commits after a gap leaves the doorbell to the poster that
 * closes the gap. A poster that finds another one ringing leaves the doorbell to that
 * one. A queue with one poster uses the same functions.
 *
 * Counts are blocks since the queue was made, with 64 bits. Block c is in slot
 * c mod size of the ring, and the WQE shows the low 16 bits of c. Always
 *
 *   freed <= rung <= reserved <= freed + size
 *
 * All words of struct nicless_sq are private to the posters and the poller. The device
 * sees only the ring, the record and the register.
 */
#ifndef NICLESS_SQ_H
#define NICLESS_SQ_H

#include "formats.h"

/* The work request in a slot. */
struct nicless_note {
	uint64_t id;     /* the work request's */
	uint64_t blocks; /* of the WQE that begins here; 0 if none does */
};

struct nicless_sq {
	/* Never changed after nicless_sq_init. */
	uint8_t *ring;             /* size blocks, on a multiple of 64 bytes */
	uint64_t *stamp;           /* per slot: the count at which the reservation that began here ends */
	struct nicless_note *note; /* per slot */
	uint32_t *record;          /* the QP's doorbell record, two words */
	uint64_t *reg[2];          /* the two halves of the register, used in turn; 0 for none */
	uint64_t size;             /* blocks, a power of two */
	uint64_t qpn;
	uint8_t pad0[64];

	/* Written by the posters. */
	uint64_t reserved; /* count of the first block that is not reserved */
	uint64_t seen;     /* a copy of freed that some poster made */
	uint8_t pad1[112];

	/* Owned by the ringing poster; the poller reads rung as well. */
	uint64_t ringing; /* 1 while a poster rings */
	uint64_t rung;    /* count up to which the device has been told */
	uint64_t half;    /* the half of the register that is written next */
	uint8_t pad2[104];

	/* Written by the poller. */
	uint64_t freed; /* every WQE below this count has completed */
	uint8_t pad3[120];
};

/* Bytes of private memory that a queue of size blocks needs, aligned to 8. */
NICLESS_HD size_t nicless_sq_memory(uint64_t size) {
	return (size_t)size * (sizeof(uint64_t) + sizeof(struct nicless_note));
}

/*
 * Makes a queue with count 0, for a QP that was just made or reset. It zeroes memory.
 * reg is the first half of a register, or 0 to post by the record alone: this device
 * polls records.
 */
NICLESS_HD int nicless_sq_init(struct nicless_sq *q, void *ring, uint64_t size, uint32_t *record, void *reg,
                               uint32_t qpn, void *memory) {
	uint64_t i;
	if (size == 0 || size > NICLESS_MAX_RING || (size & (size - 1)) != 0 || qpn > 0xffffff)
		return -EINVAL;
	q->ring = (uint8_t *)ring;
	q->stamp = (uint64_t *)memory;
	q->note = (struct nicless_note *)(q->stamp + size);
	q->record = record;
	q->reg[0] = (uint64_t *)reg;
	q->reg[1] = reg ? (uint64_t *)((uint8_t *)reg + NICLESS_REG_HALF) : 0;
	q->size = size;
	q->qpn = qpn;
	q->reserved = q->seen = q->ringing = q->rung = q->half = q->freed = 0;
	for (i = 0; i < size; i++) {
		q->stamp[i] = 0;
		q->note[i].id = q->note[i].blocks = 0;
	}
	return 0;
}

/*
 * Reserves n blocks, 1 to the size of the ring, and stores the count of the first.
 * Returns 0 while fewer are free: then ring, poll, and try again. Ringing comes first
 * because the room may be taken by WQEs that the device has not been told of.
 *
 * seen is loaded before reserved. In the other order a poster that is delayed between
 * the two loads could find seen beyond reserved, and mistake that for a full queue.
 */
NICLESS_HD int nicless_sq_reserve(struct nicless_sq *q, uint64_t n, uint64_t *first) {
	for (;;) {
		uint64_t seen = nicless_observe64(&q->seen);
		uint64_t count = nicless_load64(&q->reserved);
		if (count + n - seen > q->size) {
			/* The poller's cache line is accessed only when the ring looks full. */
			seen = nicless_observe64(&q->freed);
			if ((int64_t)(count + n - seen) > (int64_t)q->size)
				return 0;
			nicless_publish64(&q->seen, seen);
		}
		if (nicless_swap64(&q->reserved, count, count + n)) {
			*first = count;
			return 1;
		}
	}
}

/* Returns unit u (16 bytes) of the WQE that begins at count. */
NICLESS_HD void *nicless_sq_unit(const struct nicless_sq *q, uint64_t count, uint32_t u) {
	return q->ring + ((count * 4 + u) & (q->size * 4 - 1)) * NICLESS_UNIT;
}

/*
 * Notes that the WQE of a work request occupies blocks from count on. Every block of a
 * reservation must belong to a WQE before the reservation is committed.
 */
NICLESS_HD void nicless_sq_note(struct nicless_sq *q, uint64_t count, uint64_t blocks, uint64_t id) {
	uint64_t i;
	q->note[count & (q->size - 1)].id = id;
	nicless_store64(&q->note[count & (q->size - 1)].blocks, blocks);
	for (i = 1; i < blocks; i++)
		nicless_store64(&q->note[(count + i) & (q->size - 1)].blocks, 0);
}

/*
 * Marks the n blocks reserved at first as written. The stamp is the count after them,
 * which is above first; the stamp of an earlier lap is not.
 */
NICLESS_HD void nicless_sq_commit(struct nicless_sq *q, uint64_t first, uint64_t n) {
	nicless_ordered_store64(&q->stamp[first & (q->size - 1)], first + n);
}

/*
 * Publishes the count end: first the record, then the register, with the first eight
 * bytes of the last WQE. Those are read before the record is written: after that the
 * device may complete the WQE, and another poster may reuse its slot.
 */
NICLESS_HD void nicless_sq_doorbell(struct nicless_sq *q, uint64_t end) {
	uint64_t last = end - 1, first8;
	while (nicless_load64(&q->note[last & (q->size - 1)].blocks) == 0)
		last--;
	first8 = *(nicless_word64 *)nicless_sq_unit(q, last, 0);
	nicless_publish64(&q->rung, end); /* before the record: the poller looks up WQEs below rung */
	nicless_publish32(&q->record[NICLESS_REC_SEND], nicless_be32((uint16_t)end));
	if (q->reg[0]) {
		nicless_publish64(q->reg[q->half], first8);
		q->half ^= 1;
	}
}

/*
 * Tells the device of all blocks committed without a gap. If another poster is ringing
 * it does this: after it has cleared ringing it checks the next stamp once more. The
 * accesses to the stamp and to ringing are sequentially consistent, so either this
 * poster's swap finds ringing 0, or the other poster's last check finds the stamp.
 */
NICLESS_HD void nicless_sq_ring(struct nicless_sq *q) {
	uint64_t from, end, stamp;
	do {
		if (!nicless_ordered_swap64(&q->ringing, 0, 1))
			return;
		from = end = q->rung;
		while ((stamp = nicless_observe64(&q->stamp[end & (q->size - 1)])) > end)
			end = stamp;
		if (end != from)
			nicless_sq_doorbell(q, end);
		nicless_ordered_store64(&q->ringing, 0);
	} while (nicless_ordered_load64(&q->stamp[end & (q->size - 1)]) > end);
}

/*
 * Finds the work request whose WQE begins at the wqe_counter of a CQE, and frees it and
 * all before it. Only the poller calls this. Returns -ENOENT for an index at which no
 * WQE is under way; only a faulty device writes one.
 */
NICLESS_HD int nicless_sq_complete(struct nicless_sq *q, uint16_t counter, uint64_t *id) {
	uint64_t count = nicless_extend(q->freed, counter);
	struct nicless_note *n = &q->note[count & (q->size - 1)];
	if (count >= nicless_observe64(&q->rung) || n->blocks == 0)
		return -ENOENT;
	*id = n->id;
	nicless_publish64(&q->freed, count + n->blocks);
	return 0;
}

#endif
