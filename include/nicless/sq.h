/*
 * A send queue with any number of posters.
 *
 *   reserve   takes blocks of the ring, by compare-and-swap
 *   write     fills them with WQEs, in plain stores
 *   commit    stamps the reservation as written
 *   ring      tells the device of all that has been committed without a gap
 *
 * Posters go through these steps in any order among themselves, and none waits for a
 * neighbour: a poster that commits behind a gap leaves the doorbell to the one that
 * closes it, and one that finds another ringing leaves it to that one. A queue with one
 * poster uses the same functions.
 *
 * Counts are blocks since the queue was made, 64 bits wide; the ring holds block
 * c in slot c mod size, and the wire shows the low 16 bits. Always
 *
 *   freed <= rung <= reserved <= freed + size
 *
 * All words of struct nicless_sq are private to the posters and the poller.
 * The device sees the ring, the record and the register, and nothing else.
 */
#ifndef NICLESS_SQ_H
#define NICLESS_SQ_H

#include "formats.h"

/* What lies in a slot. */
struct nicless_note {
	uint64_t id;     /* of the work request */
	uint64_t blocks; /* of the WQE that begins here; 0: none does */
};

struct nicless_sq {
	/* Never changed after nicless_sq_init. */
	uint8_t *ring;             /* size blocks, on a multiple of 64 bytes */
	uint64_t *stamp;           /* per slot: where the reservation that began here ends */
	struct nicless_note *note; /* per slot */
	uint32_t *record;          /* the QP's doorbell record, two words */
	uint64_t *reg[2];          /* the halves of a register, rung in turn; 0: none */
	uint64_t size;             /* blocks, a power of two */
	uint64_t qpn;
	uint8_t pad0[64];

	/* The posters'. */
	uint64_t reserved; /* count of the first block that nobody has taken */
	uint64_t seen;     /* freed, as some poster last looked at it */
	uint8_t pad1[112];

	/* Whose who rings; rung is read by the poller as well. */
	uint64_t ringing; /* 1 while somebody rings */
	uint64_t rung;    /* count up to which the device has been told */
	uint64_t half;    /* of the register, to be written next */
	uint8_t pad2[104];

	/* The poller's. */
	uint64_t freed; /* count below which every WQE has completed */
	uint8_t pad3[120];
};

/* Bytes of private memory that a queue of size blocks needs, on a multiple of 8. */
NICLESS_HD size_t nicless_sq_memory(uint64_t size) {
	return (size_t)size * (sizeof(uint64_t) + sizeof(struct nicless_note));
}

/*
 * Makes a queue at count 0, as of a QP just made or reset. memory is zeroed
 * here. reg is the first half of a register, or 0 to post by record alone; the
 * device then finds the work when it next looks at the record.
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
 * Takes n blocks, 1 to size of the ring, and stores the count of the first.
 * Returns 0 while fewer are free: ring, poll, try again. Without the ring all
 * might wait for room that WQEs take up of which the device was never told.
 * More than the ring holds are never free.
 *
 * seen is loaded before reserved. The other way round a poster held up between
 * the two could find seen beyond reserved, and take the difference for a full
 * queue.
 */
NICLESS_HD int nicless_sq_reserve(struct nicless_sq *q, uint64_t n, uint64_t *first) {
	for (;;) {
		uint64_t seen = nicless_observe64(&q->seen);
		uint64_t count = nicless_load64(&q->reserved);
		if (count + n - seen > q->size) {
			/* The poller's line is only touched when the ring looks full. */
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

/* The 16 bytes at unit u of the WQE that begins at count. */
NICLESS_HD void *nicless_sq_unit(const struct nicless_sq *q, uint64_t count, uint32_t u) {
	return q->ring + ((count * 4 + u) & (q->size * 4 - 1)) * NICLESS_UNIT;
}

/*
 * Notes that the WQE of a work request takes up blocks from count on. Each
 * block of a reservation must be covered by a WQE before it is committed.
 */
NICLESS_HD void nicless_sq_note(struct nicless_sq *q, uint64_t count, uint64_t blocks, uint64_t id) {
	uint64_t i;
	q->note[count & (q->size - 1)].id = id;
	nicless_store64(&q->note[count & (q->size - 1)].blocks, blocks);
	for (i = 1; i < blocks; i++)
		nicless_store64(&q->note[(count + i) & (q->size - 1)].blocks, 0);
}

/*
 * Says that the n blocks reserved at first are written. The stamp is the count
 * behind them: it is above first, and that of a lap before is not.
 */
NICLESS_HD void nicless_sq_commit(struct nicless_sq *q, uint64_t first, uint64_t n) {
	nicless_ordered_store64(&q->stamp[first & (q->size - 1)], first + n);
}

/*
 * Publishes the count end: the record, then the last WQE's first eight bytes as
 * register. Those are read before the record is written: behind it the device
 * may be done with the WQE, and somebody else at work in its slot.
 */
NICLESS_HD void nicless_sq_doorbell(struct nicless_sq *q, uint64_t end) {
	uint64_t last = end - 1, first8;
	while (nicless_load64(&q->note[last & (q->size - 1)].blocks) == 0)
		last--;
	first8 = *(nicless_word64 *)nicless_sq_unit(q, last, 0);
	nicless_publish64(&q->rung, end); /* the poller looks for WQEs below it */
	nicless_publish32(&q->record[NICLESS_REC_SEND], nicless_be32((uint16_t)end));
	if (q->reg[0]) {
		nicless_publish64(q->reg[q->half], first8);
		q->half ^= 1;
	}
}

/*
 * Tells the device of everything committed without a gap. If another poster is ringing,
 * that one does it: after it has stopped ringing it looks at the next stamp once more.
 * For that the stamp and ringing are ordered: either the poster's swap finds ringing 0,
 * or the other's last look finds the stamp.
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
 * Finds the work request whose WQE begins where wqe_counter of a CQE says, and
 * frees it and all before it. The poller's. Returns -ENOENT for an index at
 * which nothing is under way, which only a broken device writes.
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
