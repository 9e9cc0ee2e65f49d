/*
 * Work requests of RC and UC: functions that make WQEs of any length from values, as
 * libmlx5 writes them. Datagrams (UD), work requests that change keys, and signatures
 * exist only in Go.
 */
#ifndef NICLESS_POST_H
#define NICLESS_POST_H

#include "sq.h"

struct nicless_wr {
	uint64_t id;
	uint8_t opcode;   /* enum nicless_opcode */
	uint8_t fm_ce_se; /* enum nicless_ctrl_flags */
	uint32_t imm;     /* the immediate, or the rkey of SEND_INVAL */
	uint32_t rkey;
	uint64_t raddr;
	uint64_t swap_add, compare;     /* operands of CS; FA adds swap_add */
	const struct nicless_sge *sge;  /* memory that is sent, or that a READ or an atomic fills */
	uint32_t sges;
	uint32_t inline_bytes;          /* if sges is 0: number of bytes at data to copy into the WQE */
	const void *data;
};

/*
 * Returns whether a work request can have this opcode. Masked atomics, and local operations other
 * than NOP, cannot be posted.
 */
NICLESS_HD int nicless_wr_has(uint8_t opcode) {
	return opcode == NICLESS_NOP || nicless_op_in(NICLESS_OPS_PEER & ~NICLESS_OPS_MASKED, opcode);
}

/* Returns the length of the WQE in units, or -EINVAL for an invalid work request. */
NICLESS_HD int nicless_wr_units(const struct nicless_wr *wr) {
	uint32_t i, units = 1;
	if (!nicless_wr_has(wr->opcode))
		return -EINVAL;
	if (wr->sges && !nicless_op_in(NICLESS_OPS_DATA, wr->opcode))
		return -EINVAL;
	if (wr->inline_bytes && !nicless_op_in(NICLESS_OPS_INLINE, wr->opcode))
		return -EINVAL; /* the operation sends no data */
	if (nicless_has_atomic(wr->opcode)) {
		if (wr->sges != 1 || wr->sge[0].length != 8)
			return -EINVAL;
		units++;
	}
	units += (uint32_t)nicless_has_raddr(wr->opcode);
	if (wr->inline_bytes) {
		if (wr->sges || wr->inline_bytes > NICLESS_MAX_INLINE)
			return -EINVAL;
		units += (NICLESS_INLINE_HEAD + wr->inline_bytes + NICLESS_UNIT - 1) / NICLESS_UNIT;
	}
	if (wr->sges > NICLESS_MAX_UNITS)
		return -EINVAL;
	for (i = 0; i < wr->sges; i++) {
		if (wr->sge[i].length > NICLESS_MAX_SGE_BYTES)
			return -EINVAL;
		units += wr->sge[i].length != 0;
	}
	return units <= NICLESS_MAX_UNITS ? (int)units : -EINVAL;
}

/* Writes an inline segment: its head, then data. The data wraps around at the end of the ring. */
NICLESS_HD void nicless_put_inline(const struct nicless_sq *q, uint64_t count, uint32_t u, const void *data,
                                   uint32_t n) {
	const uint8_t *from = (const uint8_t *)data;
	uint64_t at = (count * 4 + u) * NICLESS_UNIT, mask = q->size * NICLESS_BLOCK - 1;
	uint32_t i;
	*(nicless_word32 *)(q->ring + (at & mask)) = nicless_be32(NICLESS_INLINE_SEG | n);
	for (i = 0; i < n; i++)
		q->ring[(at + NICLESS_INLINE_HEAD + i) & mask] = from[i];
}

/* Writes the WQE at a reserved count, and its note. units is the result of nicless_wr_units. */
NICLESS_HD void nicless_sq_write(struct nicless_sq *q, uint64_t count, const struct nicless_wr *wr,
                                 uint32_t units) {
	uint32_t i, u = 1;
	if (nicless_has_raddr(wr->opcode))
		nicless_put_raddr(nicless_sq_unit(q, count, u++), wr->raddr, wr->rkey);
	if (nicless_has_atomic(wr->opcode))
		nicless_put_atomic(nicless_sq_unit(q, count, u++), wr->swap_add,
		                   wr->opcode == NICLESS_CS ? wr->compare : 0);
	if (wr->inline_bytes)
		nicless_put_inline(q, count, u, wr->data, wr->inline_bytes);
	for (i = 0; i < wr->sges; i++)
		if (wr->sge[i].length)
			nicless_put_data(nicless_sq_unit(q, count, u++), wr->sge[i].addr, wr->sge[i].length,
			                 wr->sge[i].lkey);
	nicless_put_ctrl(nicless_sq_unit(q, count, 0), (uint16_t)count, wr->opcode, (uint32_t)q->qpn, units,
	                 wr->fm_ce_se, nicless_has_imm(wr->opcode) ? wr->imm : 0);
	nicless_sq_note(q, count, (units + 3) / 4, wr->id);
}

/*
 * Reserves, writes and commits one work request. The next nicless_sq_ring notifies the
 * device of it. Returns -EAGAIN while the queue is full: then ring, and poll with
 * nicless_cq_reap. Returns -EINVAL for a work request that is invalid or too long for
 * the queue. Neither error changes anything.
 */
NICLESS_HD int nicless_sq_post(struct nicless_sq *q, const struct nicless_wr *wr) {
	int units = nicless_wr_units(wr);
	uint64_t count, blocks = (uint64_t)(units + 3) / 4;
	if (units < 0 || blocks > q->size)
		return -EINVAL;
	if (!nicless_sq_reserve(q, blocks, &count))
		return -EAGAIN;
	nicless_sq_write(q, count, wr, (uint32_t)units);
	nicless_sq_commit(q, count, blocks);
	return 0;
}

#endif
