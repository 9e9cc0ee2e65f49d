/* The parts of libibverbs that this library uses: where programs find a function of a device.
 * Inline functions of infiniband/verbs.h, compiled into programs, use these places, so they
 * never change. verbs/check/clock.c compares them with that header. */
#ifndef NICLESS_VERBS_LIBIBVERBS_H
#define NICLESS_VERBS_LIBIBVERBS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef void nv_ibv_function(void);

/* struct ibv_context */
struct nv_ibv_context {
	void *device;
	nv_ibv_function *operations[32];
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	pthread_mutex_t mutex;
	uintptr_t abi_compat; /* NV_EXTENDED: it is part of a verbs_context */
};

#define NV_EXTENDED UINTPTR_MAX

/* Places in operations. */
enum { NV_OP_REQ_NOTIFY_CQ = 12, NV_OP_POST_SEND = 25 };

/* The begin of struct ibv_qp and struct ibv_cq. */
struct nv_ibv_object {
	struct nv_ibv_context *context;
};

/* struct ibv_qp_ex up to wr_complete, which posts the work requests that were begun */
struct nv_ibv_qp_ex {
	struct nv_ibv_object object;
	void *others[5];
	uint32_t numbers[4]; /* NV_QP_STATE */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events;
	uint64_t comp_mask, wr_id;
	unsigned wr_flags;
	void *builders[18];
	int (*wr_complete)(struct nv_ibv_qp_ex *qp);
};

enum { NV_QP_STATE = 2, NV_QPS_RTS = 3 };

/* struct ibv_values_ex */
struct nv_ibv_values {
	uint32_t comp_mask; /* in: what is asked for; out: what was answered */
	struct timespec raw_clock;
};

#define NV_RAW_CLOCK 1u /* IBV_VALUES_MASK_RAW_CLOCK */

/* The end of struct verbs_context, which grows at its begin. */
struct nv_verbs_context {
	int (*query_rt_values)(struct nv_ibv_context *context, struct nv_ibv_values *values);
	void *others[14];
	size_t size; /* of all of struct verbs_context */
	struct nv_ibv_context context;
};

#endif
