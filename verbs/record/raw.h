/* The file of raw records that a process writes. Package trace/record reads it; its comment is the
 * reference. All numbers are little-endian. */
#ifndef NICLESS_RECORD_RAW_H
#define NICLESS_RECORD_RAW_H

#include <stdint.h>

#define NR_MAGIC "niclraw1"

struct nr_file {
	char magic[8];
	uint32_t pid;
	uint32_t uid;
	uint64_t monotonic; /* CLOCK_MONOTONIC at a moment, in nanoseconds, and */
	uint64_t realtime;  /* CLOCK_REALTIME at the same moment */
	char program[32];
};

enum nr_kind {
	NR_MAKE_CONTEXT = 1, /* value: 0; data: GID, name of the device */
	NR_MAKE_CQ,          /* value: context; data: number, entries, bytes of an entry */
	NR_MAKE_SRQ,         /* value: context; data: number, PD, entries, bytes of an entry */
	NR_MAKE_QP,          /* value: context; data: struct nr_qp */
	NR_MAKE_KEY,         /* value: context; data: struct nr_key */
	NR_MODIFY,           /* data: struct nr_qp_attributes */
	NR_GONE,
	NR_POST,    /* value: index of the first block; data: blocks */
	NR_PAYLOAD, /* value: index of the WQE, place in the message from bit 16 on; data: bytes */
	NR_CQE,     /* value: index of the entry; data: id of the QP, 64 bytes, the entry of the receive */
	NR_GRH,     /* value: index of the entry of the completion; data: 40 bytes */
	NR_LOST,    /* value: enum nr_loss */
	NR_END,     /* the process has ended in order */
	NR_DEVX,    /* id: context; data: struct nr_devx, of a queue of which nothing is recorded */
};

enum nr_loss {
	NR_LOST_PAYLOAD = 1, /* memory that cannot be read, or that no key names */
	NR_LOST_COMPRESSED,  /* a completion queue has compressed entries */
	NR_LOST_RESIZED,     /* a completion queue was resized */
	NR_LOST_MEMORY,      /* there was no memory for what the library notes of an object */
	NR_LOST_KEY,         /* a key of memory without a fixed range: implicit on-demand paging, device memory */
	NR_LOST_TRANSPORT,   /* a queue pair of another transport than RC, UC and UD */
	NR_LOST_OWN,         /* the program reads or writes this ring itself */
};

struct nr_head {
	uint32_t size; /* of the record, a multiple of 8 */
	uint8_t kind;
	uint8_t pad; /* bytes after the data */
	uint16_t zero;
	uint64_t time; /* nr_now before the call of the program */
	uint64_t id;
	uint64_t value;
};

struct nr_qp {
	uint64_t send_cq, recv_cq, srq; /* ids; 0: none */
	uint32_t number, pd, type, blocks, receives, stride;
};

struct nr_qp_attributes {
	uint32_t peer, mtu, rq_psn, sq_psn, access, qkey;
	uint8_t max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, rnr_retry, retry_count, timeout, port, state;
};

struct nr_devx {
	uint32_t number, zero;
	uint8_t command[272]; /* the firmware command that has made it, or its first bytes, and then 0 */
};

struct nr_key {
	uint64_t address, iova, length;
	uint32_t number, pd, access, zero;
};

#endif
