/*
 * The formats of mlx5 that a poster needs: segments of send and receive WQEs,
 * completion queue elements, doorbell records. Comments give the names in the vendor's
 * mlx5dv.h. All numbers are big-endian. A unit is 16 bytes, and a block is four units.
 */
#ifndef NICLESS_FORMATS_H
#define NICLESS_FORMATS_H

#include "base.h"
#include "opcodes.h"

enum {
	NICLESS_BLOCK = 64,             /* MLX5_SEND_WQE_BB */
	NICLESS_UNIT = 16,              /* MLX5_SEND_WQE_DS */
	NICLESS_MAX_UNITS = 63,         /* units of the longest WQE: ds has six bits */
	NICLESS_MAX_LOG_RING = 15,
	NICLESS_MAX_RING = 1 << NICLESS_MAX_LOG_RING, /* blocks; half of what a 16-bit index can count */
	NICLESS_MAX_LOG_CQ = 22,
	NICLESS_MAX_CQ = 1 << NICLESS_MAX_LOG_CQ, /* entries */
	NICLESS_INLINE_HEAD = 4,        /* bytes of mlx5_wqe_inl_data_seg before the data */
	NICLESS_MAX_INLINE = 988        /* bytes of data in a SEND of 63 units, the longest case */
};

#define NICLESS_INLINE_SEG 0x80000000u /* MLX5_INLINE_SEG: the segment holds its data */
/* The most bytes that one pointer segment can name; its byte count is then 0. */
#define NICLESS_MAX_SGE_BYTES 0x80000000u
#define NICLESS_KEY_END 0x100u /* MLX5_INVALID_LKEY: ends a receive list */

enum nicless_ctrl_flags { /* fm_ce_se */
	NICLESS_SOLICITED = 0x02,   /* MLX5_WQE_CTRL_SOLICITED: the receiver gets an event */
	NICLESS_SIGNALED = 0x08,    /* MLX5_WQE_CTRL_CQ_UPDATE: a CQE is written on success too */
	NICLESS_FENCE_SMALL = 0x20, /* MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE */
	NICLESS_FENCE = 0x80        /* MLX5_WQE_CTRL_FENCE, for IBV_SEND_FENCE */
};

struct nicless_ctrl_seg { /* mlx5_wqe_ctrl_seg */
	uint32_t opmod_idx_opcode;
	uint32_t qpn_ds;
	uint8_t signature;
	uint8_t dci_stream[2]; /* dci_stream_channel_id */
	uint8_t fm_ce_se;
	uint32_t imm;
};

struct nicless_raddr_seg { /* mlx5_wqe_raddr_seg */
	uint64_t raddr;
	uint32_t rkey;
	uint32_t reserved;
};

struct nicless_atomic_seg { /* mlx5_wqe_atomic_seg */
	uint64_t swap_add;
	uint64_t compare;
};

struct nicless_data_seg { /* mlx5_wqe_data_seg */
	uint32_t byte_count;
	uint32_t lkey;
	uint64_t addr;
};

struct nicless_cqe { /* mlx5_cqe64; comments that begin with | give the fields of mlx5_err_cqe */
	uint8_t reserved0[17];
	uint8_t ml_path;
	uint8_t reserved1[4];
	uint16_t slid;
	uint32_t flags_rqpn;
	uint8_t reserved2[4];
	uint32_t srqn_uidx;
	uint32_t imm_inval_pkey;
	uint8_t reserved3[4];
	uint32_t byte_cnt;
	uint64_t timestamp; /* | bytes 54 and 55: vendor_err_synd, syndrome */
	uint32_t sop_drop_qpn; /* | s_wqe_opcode_qpn */
	uint16_t wqe_counter;
	uint8_t signature;
	uint8_t op_own;
};

enum {
	NICLESS_CQE = 64,
	NICLESS_CQE_FRESH = 0xf0 /* op_own before the first lap, with an opcode that no completion has */
};

/* Words of doorbell records, and offsets in a UAR page. */
enum {
	NICLESS_REC_RECV = 0, /* MLX5_RCV_DBR: receives posted */
	NICLESS_REC_SEND = 1, /* MLX5_SND_DBR: send blocks posted */
	NICLESS_REC_CI = 0,   /* MLX5_CQ_SET_CI: consumer index, 24 bits */
	NICLESS_REC_ARM = 1,  /* MLX5_CQ_ARM_DB */
	NICLESS_UAR_PAGE = 4096,
	NICLESS_UAR_ARM = 0x20,
	NICLESS_UAR_REG = 0x800, /* the first of registers 0 to 3 */
	NICLESS_REG = 512,       /* bytes of a register */
	NICLESS_REG_HALF = 256   /* bytes of each half of a register */
};

NICLESS_ASSERT(ctrl_size, sizeof(struct nicless_ctrl_seg) == 16);
NICLESS_ASSERT(ctrl_flags, offsetof(struct nicless_ctrl_seg, fm_ce_se) == 11);
NICLESS_ASSERT(ctrl_imm, offsetof(struct nicless_ctrl_seg, imm) == 12);
NICLESS_ASSERT(raddr_size, sizeof(struct nicless_raddr_seg) == 16);
NICLESS_ASSERT(raddr_rkey, offsetof(struct nicless_raddr_seg, rkey) == 8);
NICLESS_ASSERT(atomic_size, sizeof(struct nicless_atomic_seg) == 16);
NICLESS_ASSERT(data_size, sizeof(struct nicless_data_seg) == 16);
NICLESS_ASSERT(data_addr, offsetof(struct nicless_data_seg, addr) == 8);
NICLESS_ASSERT(cqe_size, sizeof(struct nicless_cqe) == NICLESS_CQE);
NICLESS_ASSERT(cqe_slid, offsetof(struct nicless_cqe, slid) == NICLESS_CQE_SLID);
NICLESS_ASSERT(cqe_uidx, offsetof(struct nicless_cqe, srqn_uidx) == NICLESS_CQE_SRQN_UIDX);
NICLESS_ASSERT(cqe_imm, offsetof(struct nicless_cqe, imm_inval_pkey) == NICLESS_CQE_IMM_INVAL_PKEY);
NICLESS_ASSERT(cqe_bytes, offsetof(struct nicless_cqe, byte_cnt) == NICLESS_CQE_BYTE_CNT);
NICLESS_ASSERT(cqe_time, offsetof(struct nicless_cqe, timestamp) == NICLESS_CQE_TIMESTAMP);
NICLESS_ASSERT(cqe_tail, offsetof(struct nicless_cqe, sop_drop_qpn) == NICLESS_CQE_TAIL);
NICLESS_ASSERT(cqe_counter, offsetof(struct nicless_cqe, wqe_counter) == NICLESS_CQE_WQE_COUNTER);
NICLESS_ASSERT(cqe_op_own, offsetof(struct nicless_cqe, op_own) == NICLESS_CQE_OP_OWN);

/* A range of registered memory. */
struct nicless_sge {
	uint64_t addr;
	uint32_t length; /* bytes, up to 2^31; a range of 0 bytes is left out of the WQE */
	uint32_t lkey;
};

/* The following functions write the segments. Arguments, including imm, are in host order. */
NICLESS_HD void nicless_put_ctrl(void *at, uint16_t index, uint8_t opcode, uint32_t qpn, uint32_t ds,
                                 uint8_t fm_ce_se, uint32_t imm) {
	nicless_put16(at, (uint64_t)index << 40 | (uint64_t)opcode << 32 | (qpn & 0xffffff) << 8 | ds,
	              (uint64_t)fm_ce_se << 32 | imm);
}

NICLESS_HD void nicless_put_raddr(void *at, uint64_t raddr, uint32_t rkey) {
	nicless_put16(at, raddr, (uint64_t)rkey << 32);
}

NICLESS_HD void nicless_put_atomic(void *at, uint64_t swap_add, uint64_t compare) {
	nicless_put16(at, swap_add, compare);
}

/* Writes a data segment. A length of 2^31 bytes is written as byte count 0. */
NICLESS_HD void nicless_put_data(void *at, uint64_t addr, uint32_t length, uint32_t lkey) {
	nicless_put16(at, (uint64_t)(length & ~NICLESS_INLINE_SEG) << 32 | lkey, addr);
}

/* Return whether the WQE of an operation has these segments or this field. */
NICLESS_HD int nicless_has_raddr(uint8_t opcode) { return nicless_op_in(NICLESS_OPS_RADDR, opcode); }
NICLESS_HD int nicless_has_atomic(uint8_t opcode) { return nicless_op_in(NICLESS_OPS_ATOMIC, opcode); }
NICLESS_HD int nicless_has_imm(uint8_t opcode) { return nicless_op_in(NICLESS_OPS_IMM, opcode); }

/*
 * Returns whether the CQE whose last byte is op_own is the completion with this index, in a ring of
 * 1 << log entries.
 */
NICLESS_HD int nicless_cqe_valid(uint8_t op_own, uint64_t index, uint32_t log) {
	return op_own < NICLESS_CQE_FRESH && (op_own & 1) == (index >> log & 1);
}

#endif
