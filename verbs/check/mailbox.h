/* Queues that a program makes by firmware commands (DEVX), posts to and polls itself, in the way of libraries
 * whose queues are used by a GPU. Places in mailboxes are those of mlx5_ifc.h: the offset of a word, and the
 * highest and lowest bit in it. */
#ifndef NICLESS_CHECK_MAILBOX_H
#define NICLESS_CHECK_MAILBOX_H

#include "check.h"

#include <infiniband/mlx5dv.h>

enum { MAILBOX = 272 };

/* Memory that is registered as a umem. */
struct umem {
	struct mlx5dv_devx_umem *umem;
	uint8_t *at;
	size_t size;
};

struct devx {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t pdn, eqn;
	struct mlx5dv_devx_uar *uar;
};

/* A completion queue. Its consumer never writes the record, unless `record` is set. */
struct devx_cq {
	struct mlx5dv_devx_obj *object;
	uint32_t number, index;
	int log, collapsed;
	struct umem ring, record;
	uint64_t ring_at, record_at; /* in the umems */
};

struct devx_qp {
	struct mlx5dv_devx_obj *object;
	uint32_t number, posted; /* posted: in blocks of 64 bytes */
	int log, mode;           /* mode: of the doorbell, as in send_dbr_mode */
	struct mlx5dv_devx_uar *uar;
	struct umem ring, record;
	uint64_t ring_at, record_at;
	int no_record; /* mode is not 0, and no umem has a record */
};

void put_bits(uint8_t *box, size_t at, int high, int low, uint64_t value);
uint64_t get_bits(const uint8_t *box, size_t at, int high, int low);

/* Opens a device with firmware commands; a protection domain, an event queue, a UAR page. */
void devx_open(struct devx *d, const char *device);
void devx_close(struct devx *d);

/* Runs a command that is to make an object; NULL with the status and the syndrome in `out`. */
struct mlx5dv_devx_obj *devx_make(struct devx *d, const uint8_t *in, size_t length, uint8_t *out);
void devx_modify(struct mlx5dv_devx_obj *object, const uint8_t *in);

struct umem umem_make(struct devx *d, size_t size, int fill);
void umem_free(struct umem *u);

/* The context of a CREATE_CQ, and of a CREATE_QP of type RC without receives, whose other fields a caller may
 * set before it calls the second function. */
void cq_begin(struct devx *d, struct devx_cq *q, uint8_t *in, int log, int collapsed);
void cq_finish(struct devx *d, struct devx_cq *q, uint8_t *in);
void qp_begin(struct devx *d, struct devx_qp *q, uint8_t *in, int log, const struct devx_cq *send);
void qp_finish(struct devx *d, struct devx_qp *q, uint8_t *in);
void cq_destroy(struct devx_cq *q);
void qp_destroy(struct devx_qp *q);

/* Takes a queue pair from RST to RTS, connected to the queue pair with a number on the same device. */
void qp_connect(struct devx *d, struct devx_qp *q, uint32_t peer);
/* Asks for the context of a queue pair: `out` is the answer of QUERY_QP. */
void qp_query(struct devx_qp *q, uint8_t *out);

/* Returns the next block of the send queue, cleared, and counts `blocks` as posted. */
uint8_t *qp_block(struct devx_qp *q, int blocks);
/* Writes a control segment with an opcode and a size in 16 bytes; every WQE has a completion. */
void wqe_control(struct devx_qp *q, uint8_t *block, uint32_t opcode, int ds);
void wqe_remote(uint8_t *segment, uint64_t addr, uint32_t key);
void wqe_data(uint8_t *segment, uint32_t length, uint32_t key, uint64_t addr);
/* Announces what was posted, in the queue's way. */
void qp_ring(struct devx_qp *q, const uint8_t *block);

/* Waits for the next completion, at most a minute, and returns it. */
struct mlx5_cqe64 *cq_wait(struct devx_cq *q);

#endif
