/*
 * The functions that RDMaxcel (meta-pytorch/monarch, rdmaxcel-sys) offers to
 * host code and kernels alike, under their own names, with their parameters and
 * effects, for programs written against them. One send queue has one poster at a
 * time here: wr_id is the index, and the record follows the last call.
 *
 * Kept as it is there:
 *
 *   - a send is three segments in one block, whatever op_type: control, remote
 *     address, data; the block's last 16 bytes stay as they were
 *   - signaled sends are solicited too: fm_ce_se 0x0a, else 0
 *   - lengths are cut to 32 bits; 0, and everything of which bit 31 is set, is
 *     written as it comes, and means something else to a device
 *   - the send record is written when a WQE is posted, not when it is rung: the
 *     low 24 bits of the index behind it
 *   - db_ring copies 64 bytes in eight stores; N calls may follow one record
 *   - cqe_poll takes one entry, reports its byte count, or -2 for opcodes from 4
 *     on; the consumer index that it writes is cut to 24 bits
 *
 * Different, with the reason:
 *
 *   - the index in the control segment is cut to the 16 bits that it has there;
 *     the original lets bits 16 to 23 run into opmod
 *   - records and consumer indices are published with release order, the
 *     register behind the record, and the owner byte is observed with acquire
 *     order; the original relies on volatile, which orders nothing on a GPU or
 *     on arm64
 *   - recv_wqe writes the entry in slot wr_id & (wqe_cnt - 1) of 16 bytes, for a
 *     receive queue of one segment per entry; the original always writes the
 *     first. With wqe_cnt 0 this one does as well
 *   - cqe_poll reads the CQE in the last 64 bytes of an entry; the original takes
 *     the first ones, where an entry of 128 bytes has something else
 *   - cqe_poll asserts nothing: *byte_cnt is left alone when there is no entry
 */
#ifndef NICLESS_RDMAXCEL_H
#define NICLESS_RDMAXCEL_H

#include <stdbool.h>

#include "formats.h"

typedef enum { CQE_POLL_ERROR = -1, CQE_POLL_FALSE = 0, CQE_POLL_TRUE = 1 } cqe_poll_result_t;

typedef struct {
	uintptr_t laddr;
	uint32_t lkey;
	size_t length;
	uint64_t wr_id;   /* the index of the WQE, counted from 0 */
	bool signaled;
	uint32_t op_type; /* enum nicless_opcode */
	uintptr_t raddr;
	uint32_t rkey;
	uint32_t qp_num;
	uint8_t *buf;     /* the ring */
	uint32_t *dbrec;  /* the QP's record, both words */
	uint32_t wqe_cnt; /* blocks or entries of the ring, a power of two */
} wqe_params_t;

typedef struct {
	uint8_t *cqe_buf;
	uint32_t cqe_size;
	uint32_t consumer_index;
	uint32_t cqe_cnt; /* a power of two */
	uint32_t *dbrec;  /* the CQ's record */
} cqe_poll_params_t;

/* Copies 64 bytes of a WQE into a register. The first store is what rings, and comes behind the record. */
NICLESS_HD void db_ring(void *dst, void *src) {
	uint64_t *to = (uint64_t *)dst;
	const nicless_word64 *from = (const nicless_word64 *)src;
	int i;
	nicless_publish64(to, from[0]);
	for (i = 1; i < 8; i++)
		nicless_store64(to + i, from[i]);
}

NICLESS_HD void send_wqe(wqe_params_t params) {
	uint32_t index = (uint32_t)params.wr_id;
	uint8_t *at = params.buf + (size_t)(index & (params.wqe_cnt - 1)) * NICLESS_BLOCK;
	nicless_put_raddr(at + 16, params.raddr, params.rkey);
	nicless_put16(at + 32, (uint64_t)(uint32_t)params.length << 32 | params.lkey, params.laddr);
	nicless_put_ctrl(at, (uint16_t)index, (uint8_t)params.op_type, params.qp_num, 3,
	                 params.signaled ? NICLESS_SIGNALED | NICLESS_SOLICITED : 0, 0);
	nicless_publish32(&params.dbrec[NICLESS_REC_SEND], nicless_be32((index + 1) & 0xffffff));
}

NICLESS_HD void recv_wqe(wqe_params_t params) {
	uint64_t slot = params.wqe_cnt ? params.wr_id & (params.wqe_cnt - 1) : 0;
	nicless_put16(params.buf + slot * NICLESS_UNIT, (uint64_t)(uint32_t)params.length << 32 | params.lkey,
	              params.laddr);
	nicless_publish32(&params.dbrec[NICLESS_REC_RECV], nicless_be32((uint32_t)(params.wr_id + 1)));
}

NICLESS_HD void cqe_poll(int32_t *byte_cnt, cqe_poll_params_t params) {
	uint32_t index = params.consumer_index;
	const uint8_t *cqe =
		params.cqe_buf + (size_t)((index & (params.cqe_cnt - 1)) + 1) * params.cqe_size - NICLESS_CQE;
	uint8_t op_own = (uint8_t)nicless_be64(
		nicless_observe64((const uint64_t *)(const void *)(cqe + NICLESS_CQE_TAIL)));
	if (op_own >= NICLESS_CQE_FRESH || (op_own & 1) != (index / params.cqe_cnt & 1))
		return;
	*byte_cnt = op_own >> 4 < 4 ? (int32_t)nicless_be32(((const nicless_word32 *)(const void *)cqe)[11]) : -2;
	nicless_publish32(&params.dbrec[NICLESS_REC_CI], nicless_be32((index + 1) & 0xffffff));
}

#endif
