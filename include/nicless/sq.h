/*
 * Functions for a send queue with any number of posters. To post, a poster takes four
 * steps:
 *
 *   reserve   takes blocks of the ring, by compare-and-swap
 *   write     fills them with WQEs, by plain stores
 *   commit    stamps the reservation as written
 *   ring      notifies the device of all committed blocks up to the first gap
 *
 * Posters take these steps in any order among themselves, and no poster waits for
 * another. A gap is a reservation that is not committed yet. If a commit closes the
 * last gap before a block, the poster that committed rings the doorbell for this block
 * too. A poster that finds another poster ringing leaves the doorbell to that poster. A
 * queue with one poster uses the same functions.
 *
 * A count is a number of blocks since the queue was made, with 64 bits. Block c is in
 * slot c mod size of the ring, and the WQE contains the low 16 bits of c. Always
 *
 *   freed <= rung <= reserved <= freed + size
 *
 * All words of struct nicless_sq, stamps and notes are private to the posters and the
 * pollers, which on a GPU are lanes of that GPU (NICLESS_POSTER_SCOPE in base.h). The
 * device sees only the ring, the record and the register.
 */
#ifndef NICLESS_SQ_H
#define NICLESS_SQ_H

#include "formats.h"

/* The work request in a slot. */
struct nicless_note {
	uint64_t id;     /* id of the work request */
	uint64_t blocks; /* number of blocks of the WQE that begins here; 0 if no WQE begins here */
};

struct nicless_sq {
	/* Never changed after nicless_sq_init. */
	uint8_t *ring;             /* the blocks, at an address that is a multiple of 64 */
	uint64_t *stamp;           /* for each slot: the count at which the reservation that began there ends */
	struct nicless_note *note; /* for each slot: its work request */
	uint32_t *record;          /* the QP's doorbell record, two words */
	uint64_t *reg[2];          /* the two halves of the register, used alternately; 0 for none */
	uint64_t size;             /* number of blocks in the ring, a power of two */
	uint64_t qpn;
	uint8_t pad0[64];

	/* Written by the posters. */
	uint64_t reserved; /* count of the first block that is not reserved */
	uint64_t seen;     /* a copy of freed that a poster has made */
	uint8_t pad1[112];

	/* Owned by the ringing poster. The poller reads rung too. */
	uint64_t ringing; /* 1 while a poster rings */
	uint64_t rung;    /* the device knows of all blocks below this count */
	uint64_t half;    /* the half of the register that is written next */
	uint8_t pad2[104];

	/* Written by the poller. */
	uint64_t freed;   /* every WQE below this count has completed */
	uint64_t looking; /* on a GPU: 1 while a lane reads the newest CQE of a collapsed queue */
	uint8_t pad3[112];
};

/*
 * Returns how many bytes of private memory a queue needs. size is the queue's number of blocks. The
 * memory must be aligned to 8 bytes.
 */
NICLESS_HD size_t nicless_sq_memory(uint64_t size) {
	return (size_t)size * (sizeof(uint64_t) + sizeof(struct nicless_note));
}

/*
 * Makes a queue whose counts are 0, for a QP that was just made or reset. memory is the
 * queue's private memory (nicless_sq_memory), which this function zeroes. reg is the
 * first half of a register. If reg is 0, posters write only the record, which is enough
 * because this device polls records.
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
	q->reserved = q->seen = q->ringing = q->rung = q->half = q->freed = q->looking = 0;
	for (i = 0; i < size; i++) {
		q->stamp[i] = 0;
		q->note[i].id = q->note[i].blocks = 0;
	}
	return 0;
}

/*
 * Reserves n blocks, 1 to the size of the ring, and stores the count of the first one.
 * Returns 0 while fewer than n blocks are free: then ring, poll, and try again. Ring
 * first, because WQEs that the device does not know of yet may occupy the room.
 *
 * seen is loaded before reserved. In the other order, a poster that is delayed between
 * the two loads could find seen beyond reserved, and mistake that for a full queue.
 */
NICLESS_HD int nicless_sq_reserve(struct nicless_sq *q, uint64_t n, uint64_t *first) {
	for (;;) {
		uint64_t seen = nicless_poster_observe64(&q->seen);
		uint64_t count = nicless_poster_load64(&q->reserved);
		if (count + n - seen > q->size) {
			/* The poller's cache line is accessed only when the ring looks full. */
			seen = nicless_poster_observe64(&q->freed);
			if ((int64_t)(count + n - seen) > (int64_t)q->size)
				return 0;
			nicless_poster_publish64(&q->seen, seen);
		}
		if (nicless_poster_swap64(&q->reserved, count, count + n)) {
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
 * Notes which blocks the WQE of the work request id occupies. The first of them has the
 * count `count`, and `blocks` is their number. Every block of a reservation must belong
 * to a WQE before the reservation is committed.
 */
NICLESS_HD void nicless_sq_note(struct nicless_sq *q, uint64_t count, uint64_t blocks, uint64_t id) {
	uint64_t i;
	q->note[count & (q->size - 1)].id = id;
	nicless_poster_store64(&q->note[count & (q->size - 1)].blocks, blocks);
	for (i = 1; i < blocks; i++)
		nicless_poster_store64(&q->note[(count + i) & (q->size - 1)].blocks, 0);
}

/*
 * Marks n reserved blocks as written. The first of them has the count `first`. The
 * stamp is the count after these blocks, so it is greater than `first`. A stamp of an
 * earlier lap is not greater than `first`.
 */
NICLESS_HD void nicless_sq_commit(struct nicless_sq *q, uint64_t first, uint64_t n) {
	nicless_ordered_store64(&q->stamp[first & (q->size - 1)], first + n);
}

/*
 * Publishes the count `end`. It first writes the record, then the first eight bytes of
 * the last WQE to the register. It reads these eight bytes before it writes the record,
 * because as soon as the record is written the device may complete the WQE, and another
 * poster may reuse the slot of the WQE.
 *
 * The one system fence of a post is here. It covers rung, and the WQEs and payload of all
 * posters whose stamps the caller has observed. On a GPU nothing orders the register after
 * the record: this device starts a queue by one of the two, and does not read the record
 * because of the register.
 */
NICLESS_HD void nicless_sq_doorbell(struct nicless_sq *q, uint64_t end) {
	uint64_t last = end - 1, first8;
	while (nicless_poster_load64(&q->note[last & (q->size - 1)].blocks) == 0)
		last--;
	first8 = *(nicless_word64 *)nicless_sq_unit(q, last, 0);
	nicless_poster_store64(&q->rung, end); /* before the record: the poller looks up WQEs below rung */
	nicless_system_fence();
	nicless_fenced_store32(&q->record[NICLESS_REC_SEND], nicless_be32((uint16_t)end));
	if (q->reg[0]) {
		nicless_fenced_store64(q->reg[q->half], first8);
		q->half ^= 1;
	}
}

/*
 * Notifies the device of all committed blocks up to the first gap. If another poster is
 * ringing, the function leaves this to that poster, which checks the next stamp once
 * more after it has cleared ringing. The accesses to the stamp and to ringing are
 * sequentially consistent. So either this poster's swap finds ringing 0, or the other
 * poster's last check finds the stamp.
 */
NICLESS_HD void nicless_sq_ring(struct nicless_sq *q) {
	uint64_t from, end, stamp;
	do {
		if (!nicless_ordered_swap64(&q->ringing, 0, 1))
			return;
		from = end = q->rung;
		while ((stamp = nicless_poster_observe64(&q->stamp[end & (q->size - 1)])) > end)
			end = stamp;
		if (end != from)
			nicless_sq_doorbell(q, end);
		nicless_ordered_store64(&q->ringing, 0);
	} while (nicless_ordered_load64(&q->stamp[end & (q->size - 1)]) > end);
}

/*
 * Finds the work request whose WQE begins at the wqe_counter of a CQE, and frees this
 * WQE and all before it. Only the poller calls this. Returns -ENOENT for an index at
 * which no WQE is under way. Only a faulty device writes such an index.
 */
NICLESS_HD int nicless_sq_complete(struct nicless_sq *q, uint16_t counter, uint64_t *id) {
	uint64_t count = nicless_extend(q->freed, counter);
	struct nicless_note *n = &q->note[count & (q->size - 1)];
	if (count >= nicless_poster_observe64(&q->rung) || n->blocks == 0)
		return -ENOENT;
	*id = n->id;
	nicless_poster_publish64(&q->freed, count + n->blocks);
	return 0;
}

#endif
