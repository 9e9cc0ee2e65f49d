/*
 * The messages of the control protocol (docs/CONTROL.md) that this client sends and
 * receives. The structs are sent and received as they are, because the machine is
 * little-endian like the protocol.
 */
#ifndef NICLESS_CONTROL_H
#define NICLESS_CONTROL_H

#include "base.h"

enum {
	NICLESS_MAGIC = 0x6c63696e,
	NICLESS_MAJOR = 2,
	NICLESS_MINOR = 0,
	NICLESS_HEADER = 16,
	NICLESS_MAX_MESSAGE = 512, /* bytes of a datagram, including the header */
	NICLESS_MAX_PAYLOAD = NICLESS_MAX_MESSAGE - NICLESS_HEADER
};

enum nicless_op {
	NICLESS_OP_HELLO = 1,
	NICLESS_OP_ALLOC_PD = 2,
	NICLESS_OP_DEALLOC_PD = 3,
	NICLESS_OP_CREATE_REGION = 4,
	NICLESS_OP_DROP_REGION = 5,
	NICLESS_OP_REG_MR = 6,
	NICLESS_OP_DEREG_MR = 7,
	NICLESS_OP_CREATE_CHANNEL = 8,
	NICLESS_OP_DESTROY_CHANNEL = 9,
	NICLESS_OP_CREATE_CQ = 10,
	NICLESS_OP_DESTROY_CQ = 11,
	NICLESS_OP_CREATE_QP = 12,
	NICLESS_OP_MODIFY_QP = 13,
	NICLESS_OP_QUERY_QP = 14,
	NICLESS_OP_DESTROY_QP = 15,
	NICLESS_OP_PLACE_REGION = 26
};

enum { NICLESS_FLAG_ANSWER = 1, NICLESS_FLAG_REFUSED = 2 };

struct nicless_header {
	uint16_t op;
	uint16_t flags;
	uint32_t size; /* bytes of the payload */
	uint64_t tag;
};

struct nicless_hello { /* the name follows */
	uint32_t magic;
	uint16_t major, minor;
	uint64_t features;
};

struct nicless_welcome {
	uint16_t major, minor;
	uint32_t uar_pages;
	uint64_t features;
	uint64_t guid;
	uint32_t max_regions, max_pds, max_mrs, max_cqs, max_qps, max_channels;
	uint64_t max_bytes;
	uint8_t max_log_sq, max_log_rq, max_log_cq, max_rd_atomic, max_message_log, pad[3];
};

struct nicless_create_region {
	uint64_t size;
};

struct nicless_place_region {
	uint32_t region;
	uint8_t pad[4];
	uint64_t addr;
};

struct nicless_reg_mr {
	uint32_t pdn;
	uint32_t access;
	uint64_t addr;
	uint64_t length;
	uint64_t iova;
};

enum nicless_access {
	NICLESS_LOCAL_WRITE = 1,
	NICLESS_REMOTE_WRITE = 2,
	NICLESS_REMOTE_READ = 4,
	NICLESS_REMOTE_ATOMIC = 8,
	NICLESS_FULL_ACCESS = 15
};

struct nicless_create_cq {
	uint64_t buf;
	uint64_t dbrec;
	uint64_t handle;
	uint32_t channel;
	uint32_t flags;
	uint8_t log_size, log_cqe;
	uint16_t uar;
	uint8_t mini_format; /* only with NICLESS_CQ_COMPRESSED */
	uint8_t pad[3];
};

enum { NICLESS_CQ_COLLAPSED = 1, NICLESS_CQ_IGNORE_OVERRUN = 2, NICLESS_CQ_COMPRESSED = 4 };

struct nicless_create_qp {
	uint32_t pdn, send_cqn, recv_cqn, user_index;
	uint64_t sq, rq, dbrec;
	uint8_t type, log_sq, log_rq, log_rq_stride;
	uint16_t uar;
	uint8_t no_receive, signature_on;
	uint32_t srqn;
	uint8_t managed, blue_flame;
	uint8_t scatter; /* flags; 0: short data go to memory, the record is the doorbell */
	uint8_t streams; /* of types that this header does not have: 0 */
};

enum { NICLESS_RC = 0, NICLESS_UC = 1, NICLESS_UD = 2 };

struct nicless_qp_attr {
	uint32_t qpn, mask;
	uint8_t state, cur_state, port, path_mtu, timeout, retry_count, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint16_t pkey_index;
	uint32_t access, rq_psn, sq_psn, dest_qpn;
	uint64_t guid;
	uint32_t qkey;
	uint16_t executed;  /* answers: blocks of the send queue that the device has executed, modulo 2^16 */
	uint16_t announced; /* answers: blocks that doorbells have announced, modulo 2^16 */
};

enum { NICLESS_RST = 0, NICLESS_INIT = 1, NICLESS_RTR = 2, NICLESS_RTS = 3, NICLESS_ERR = 6 };

enum nicless_attr {
	NICLESS_ATTR_STATE = 1 << 0,
	NICLESS_ATTR_ACCESS = 1 << 3,
	NICLESS_ATTR_PKEY_INDEX = 1 << 4,
	NICLESS_ATTR_PORT = 1 << 5,
	NICLESS_ATTR_GUID = 1 << 7,
	NICLESS_ATTR_PATH_MTU = 1 << 8,
	NICLESS_ATTR_TIMEOUT = 1 << 9,
	NICLESS_ATTR_RETRY_COUNT = 1 << 10,
	NICLESS_ATTR_RNR_RETRY = 1 << 11,
	NICLESS_ATTR_RQ_PSN = 1 << 12,
	NICLESS_ATTR_MAX_RD_ATOMIC = 1 << 13,
	NICLESS_ATTR_MIN_RNR_TIMER = 1 << 15,
	NICLESS_ATTR_SQ_PSN = 1 << 16,
	NICLESS_ATTR_MAX_DEST_RD_ATOMIC = 1 << 17,
	NICLESS_ATTR_DEST_QPN = 1 << 20
};

struct nicless_refusal { /* a sentence follows */
	uint32_t code;
};

NICLESS_ASSERT(header_size, sizeof(struct nicless_header) == NICLESS_HEADER);
NICLESS_ASSERT(hello_size, sizeof(struct nicless_hello) == 16);
NICLESS_ASSERT(welcome_size, sizeof(struct nicless_welcome) == 64);
NICLESS_ASSERT(create_region_size, sizeof(struct nicless_create_region) == 8);
NICLESS_ASSERT(place_region_size, sizeof(struct nicless_place_region) == 16);
NICLESS_ASSERT(reg_mr_size, sizeof(struct nicless_reg_mr) == 32);
NICLESS_ASSERT(create_cq_size, sizeof(struct nicless_create_cq) == 40);
NICLESS_ASSERT(create_qp_size, sizeof(struct nicless_create_qp) == 56);
NICLESS_ASSERT(qp_attr_size, sizeof(struct nicless_qp_attr) == 56);

#endif
