/*
 * Memory, keys and queues of a client (nicless_client.h). The structures belong to the
 * caller. Each structure stands for an object in the engine. That object ends when the
 * connection ends, if not before. Host code only. Include this header before those of the
 * C library, or define _GNU_SOURCE, as nicless_client.h needs it.
 */
#ifndef NICLESS_VERBS_H
#define NICLESS_VERBS_H

#include "nicless_client.h" /* first: it defines _GNU_SOURCE */

#include "dv.h"

/* Memory shared with the engine. */
struct nicless_region {
	uint8_t *mem;
	size_t size, used;
	uint32_t id;
};

/*
 * Makes a region of at least size bytes of zeroed memory. The engine creates the memory; this
 * process maps it and sends the engine the address.
 */
static inline int nicless_region_open(struct nicless_client *c, size_t size, struct nicless_region *r) {
	struct nicless_create_region request;
	struct nicless_place_region place;
	void *at = 0;
	int fds[2], error;
	memset(r, 0, sizeof *r);
	memset(&place, 0, sizeof place);
	r->size = (size + NICLESS_UAR_PAGE - 1) & ~(size_t)(NICLESS_UAR_PAGE - 1);
	if (size == 0 || r->size < size)
		return nicless_fail(c, -EINVAL, "region of %zu bytes; 1 to 2^40 are possible", size);
	request.size = r->size;
	error = nicless_call(c, NICLESS_OP_CREATE_REGION, &request, sizeof request, &r->id, sizeof r->id, fds);
	if (error)
		return error;
	if (fds[0] < 0)
		return nicless_fail(c, -EPROTO, "the engine's new region came without a descriptor");
	error = nicless_map_sealed(c, "a region", fds[0], r->size, &at);
	nicless_close_fds(fds); /* the mapping stays */
	if (error == 0) {
		place.region = r->id;
		place.addr = (uintptr_t)at;
		error = nicless_ask(c, NICLESS_OP_PLACE_REGION, &place, sizeof place, 0, 0);
		if (error)
			munmap(at, r->size);
		else
			r->mem = (uint8_t *)at;
	}
	if (error && c->fd >= 0) {
		char why[sizeof c->error];
		memcpy(why, c->error, sizeof why);
		nicless_ask(c, NICLESS_OP_DROP_REGION, &r->id, sizeof r->id, 0, 0);
		memcpy(c->error, why, sizeof why); /* the first error is the cause */
	}
	return error;
}

/* Unmaps and drops a region. Fails with -EBUSY while keys or queues are in it. */
static inline int nicless_region_close(struct nicless_client *c, struct nicless_region *r) {
	int error = c->fd >= 0 ? nicless_ask(c, NICLESS_OP_DROP_REGION, &r->id, sizeof r->id, 0, 0) : 0;
	if (error == 0 && r->mem) {
		munmap(r->mem, r->size);
		r->mem = 0;
	}
	return error;
}

/*
 * Takes memory from a region, and returns 0 if too little is left. The memory begins at
 * a multiple of 128, so that no two results share a pair of cache lines.
 */
static inline void *nicless_take(struct nicless_region *r, size_t bytes) {
	void *at = r->mem + r->used;
	if (bytes > ((r->size - r->used) & ~(size_t)127))
		return 0;
	r->used += (bytes + 127) & ~(size_t)127;
	return at;
}

static inline int nicless_alloc_pd(struct nicless_client *c, uint32_t *pdn) {
	return nicless_ask(c, NICLESS_OP_ALLOC_PD, 0, 0, pdn, sizeof *pdn);
}

static inline int nicless_dealloc_pd(struct nicless_client *c, uint32_t pdn) {
	return nicless_ask(c, NICLESS_OP_DEALLOC_PD, &pdn, sizeof pdn, 0, 0);
}

/*
 * Registers memory inside one region. The key is both lkey and rkey. With this key, work requests
 * use addresses of this process.
 */
static inline int nicless_reg_mr(struct nicless_client *c, uint32_t pdn, const void *at, size_t bytes,
                                 uint32_t access, uint32_t *key) {
	struct nicless_reg_mr r;
	r.pdn = pdn;
	r.access = access;
	r.addr = r.iova = (uintptr_t)at;
	r.length = bytes;
	return nicless_ask(c, NICLESS_OP_REG_MR, &r, sizeof r, key, sizeof *key);
}

static inline int nicless_dereg_mr(struct nicless_client *c, uint32_t key) {
	return nicless_ask(c, NICLESS_OP_DEREG_MR, &key, sizeof key, 0, 0);
}

/*
 * Makes a completion channel. *events is a socket from which the caller reads 8 bytes
 * for each event: the address of the struct nicless_cq. If bit 63 of these bytes is
 * set, that CQ has overrun.
 */
static inline int nicless_channel_open(struct nicless_client *c, uint32_t *channel, int *events) {
	int fds[2], error = nicless_call(c, NICLESS_OP_CREATE_CHANNEL, 0, 0, channel, sizeof *channel, fds);
	*events = -1;
	if (error)
		return error;
	if (fds[0] < 0 || fds[1] >= 0) {
		int n = fds[0] < 0 ? 0 : 2;
		nicless_close_fds(fds);
		return nicless_fail(c, -EPROTO, "the engine's channel %u came with %d descriptors, 1 is needed",
		                    *channel, n);
	}
	*events = fds[0];
	return 0;
}

static inline int nicless_channel_close(struct nicless_client *c, uint32_t channel, int events) {
	if (events >= 0)
		close(events);
	return nicless_ask(c, NICLESS_OP_DESTROY_CHANNEL, &channel, sizeof channel, 0, 0);
}

/* Returns the smaller of the engine's limit and the limit of these headers. */
static inline uint32_t nicless_most(uint32_t theirs, uint32_t ours) { return theirs < ours ? theirs : ours; }

/*
 * Makes a completion queue of 1 << log entries of 64 bytes in memory from r. flags are
 * those of the protocol. A collapsed queue needs both NICLESS_CQ_COLLAPSED and
 * NICLESS_CQ_IGNORE_OVERRUN, and belongs to one send queue (nicless_cq_advance).
 * channel is 0 for a queue that is never armed. Other queues are armed by the register
 * in page 0 of the UAR pages.
 */
static inline int nicless_cq_open(struct nicless_client *c, struct nicless_region *r, uint32_t log,
                                  uint32_t flags, uint32_t channel, struct nicless_cq *q, uint32_t *cqn) {
	struct nicless_create_cq m;
	void *ring, *record;
	size_t used = r->used;
	uint32_t most = nicless_most(c->device.max_log_cq, NICLESS_MAX_LOG_CQ);
	int error;
	if (log > most)
		return nicless_fail(c, -EINVAL, "CQ of 2^%u entries; 2^%u are possible", log, most);
	if (flags & NICLESS_CQ_COMPRESSED)
		return nicless_fail(c, -EINVAL, "CQ with compressed entries; nicless_cq_poll does not expand them");
	ring = nicless_take(r, (size_t)NICLESS_CQE << log);
	record = nicless_take(r, 8);
	if (!ring || !record) {
		r->used = used;
		return nicless_fail(c, -ENOMEM, "CQ of 2^%u entries: %zu of the region's %zu bytes are taken", log,
		                    used, r->size);
	}
	memset(record, 0, 8);
	error = nicless_cq_init(q, ring, log, NICLESS_CQE, (uint32_t *)record);
	if (error) {
		r->used = used;
		return nicless_fail(c, error, "CQ of 2^%u entries of %d bytes cannot be made", log, NICLESS_CQE);
	}
	q->status = c->status;
	q->status_size = c->status_size;
	memset(&m, 0, sizeof m);
	m.buf = (uintptr_t)ring;
	m.dbrec = (uintptr_t)record;
	m.handle = (uintptr_t)q;
	m.channel = channel;
	m.flags = flags;
	m.log_size = (uint8_t)log;
	m.log_cqe = 6;
	error = nicless_ask(c, NICLESS_OP_CREATE_CQ, &m, sizeof m, cqn, sizeof *cqn);
	if (error)
		r->used = used;
	return error;
}

static inline int nicless_cq_close(struct nicless_client *c, uint32_t cqn) {
	return nicless_ask(c, NICLESS_OP_DESTROY_CQ, &cqn, sizeof cqn, 0, 0);
}

/* The properties of a queue pair. */
struct nicless_qp_config {
	uint32_t pdn;
	uint32_t send_cqn, recv_cqn;
	uint32_t user_index; /* CQEs return it: nicless_wc.uidx */
	uint8_t type;        /* NICLESS_RC or NICLESS_UC */
	uint8_t log_sq;      /* log2 of the number of send blocks */
	uint8_t log_rq;      /* log2 of the number of receives */
	uint8_t log_rq_sge;  /* log2 of the number of ranges of memory in a receive */
};

struct nicless_qp {
	uint32_t qpn;
	uint8_t type;
	struct nicless_sq sq;
	struct nicless_rq rq;
	void *reg;     /* the doorbell register in the UAR pages */
	void *memory;  /* private to the posters: memory for nicless_sq_init, then the ids of receives */
};

static inline int nicless_modify_qp(struct nicless_client *c, const struct nicless_qp_attr *a) {
	return nicless_ask(c, NICLESS_OP_MODIFY_QP, a, sizeof *a, 0, 0);
}

static inline int nicless_query_qp(struct nicless_client *c, uint32_t qpn, struct nicless_qp_attr *a) {
	return nicless_ask(c, NICLESS_OP_QUERY_QP, &qpn, sizeof qpn, a, sizeof *a);
}

static inline int nicless_qp_init_state(struct nicless_client *c, uint32_t qpn) {
	struct nicless_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qpn = qpn;
	a.mask = NICLESS_ATTR_STATE | NICLESS_ATTR_PKEY_INDEX | NICLESS_ATTR_PORT | NICLESS_ATTR_ACCESS;
	a.state = NICLESS_INIT;
	a.port = 1;
	a.access = NICLESS_REMOTE_WRITE | NICLESS_REMOTE_READ | NICLESS_REMOTE_ATOMIC;
	return nicless_modify_qp(c, &a);
}

static inline void nicless_qp_free(struct nicless_qp *q) {
	free(q->memory);
	q->memory = 0;
}

/* Destroys a queue pair. Work that has not completed by then never completes. */
static inline int nicless_qp_close(struct nicless_client *c, struct nicless_qp *q) {
	int error = c->fd >= 0 ? nicless_ask(c, NICLESS_OP_DESTROY_QP, &q->qpn, sizeof q->qpn, 0, 0) : 0;
	if (error == 0)
		nicless_qp_free(q);
	return error;
}

/*
 * Makes a queue pair in state INIT in memory from r. Receives may be posted from now on, and sends
 * after nicless_qp_connect.
 */
static inline int nicless_qp_open(struct nicless_client *c, struct nicless_region *r,
                                  const struct nicless_qp_config *f, struct nicless_qp *q) {
	struct nicless_create_qp m;
	size_t sq, rq, used = r->used;
	uint32_t most_sq = nicless_most(c->device.max_log_sq, NICLESS_MAX_LOG_RING);
	uint32_t most_rq = nicless_most(c->device.max_log_rq, NICLESS_MAX_LOG_RING);
	uint32_t n;
	void *rings, *record;
	int error;
	memset(q, 0, sizeof *q);
	if (f->type > NICLESS_UC)
		return nicless_fail(c, -EINVAL, "QP of type %u; this client makes RC (0) and UC (1)", f->type);
	if (f->log_sq > most_sq || f->log_rq > most_rq || f->log_rq_sge > 5)
		return nicless_fail(c, -EINVAL,
		                    "QP of 2^%u blocks and 2^%u receives of 2^%u pieces; 2^%u, 2^%u and 2^5 are possible",
		                    f->log_sq, f->log_rq, f->log_rq_sge, most_sq, most_rq);
	sq = (size_t)NICLESS_BLOCK << f->log_sq;
	rq = (size_t)NICLESS_UNIT << (f->log_rq + f->log_rq_sge);
	if (rq < NICLESS_BLOCK)
		rq = NICLESS_BLOCK; /* the send ring follows, at a multiple of 64 */
	rings = nicless_take(r, rq + sq);
	record = nicless_take(r, 8);
	if (rings && record)
		q->memory = malloc(nicless_sq_memory((uint64_t)1 << f->log_sq) + (sizeof(uint64_t) << f->log_rq));
	if (!q->memory)
		r->used = used;
	if (!rings || !record)
		return nicless_fail(c, -ENOMEM, "QP with rings of %zu bytes: %zu of the region's %zu are taken",
		                    rq + sq, used, r->size);
	if (!q->memory)
		return nicless_fail(c, -ENOMEM, "no memory for a QP of 2^%u blocks", f->log_sq);
	n = c->registers++;
	memset(record, 0, 8);
	memset(&m, 0, sizeof m);
	m.pdn = f->pdn;
	m.send_cqn = f->send_cqn;
	m.recv_cqn = f->recv_cqn;
	m.user_index = f->user_index;
	m.rq = (uintptr_t)rings;
	m.sq = m.rq + rq;
	m.dbrec = (uintptr_t)record;
	m.type = f->type;
	m.log_sq = f->log_sq;
	m.log_rq = f->log_rq;
	m.log_rq_stride = (uint8_t)(4 + f->log_rq_sge);
	m.uar = (uint16_t)(n / 2 % c->device.uar_pages); /* uses two registers of each page, as on hardware */
	q->reg = c->uar + (size_t)m.uar * NICLESS_UAR_PAGE + NICLESS_UAR_REG + n % 2 * NICLESS_REG;
	q->type = f->type;
	error = nicless_ask(c, NICLESS_OP_CREATE_QP, &m, sizeof m, &q->qpn, sizeof q->qpn);
	if (error == 0) {
		uint64_t *ids = (uint64_t *)(void *)((char *)q->memory + nicless_sq_memory((uint64_t)1 << f->log_sq));
		error = nicless_rq_init(&q->rq, rings, (uint64_t)1 << f->log_rq,
		                        (uint64_t)NICLESS_UNIT << f->log_rq_sge, (uint32_t *)record, ids);
		if (error == 0)
			error = nicless_sq_init(&q->sq, (uint8_t *)rings + rq, (uint64_t)1 << f->log_sq,
			                        (uint32_t *)record, q->reg, q->qpn, q->memory);
		if (error)
			nicless_fail(c, error, "QP %#x of 2^%u blocks and 2^%u receives cannot be made; numbers have 24 bits",
			             q->qpn, f->log_sq, f->log_rq);
		else
			error = nicless_qp_init_state(c, q->qpn);
		if (error) {
			char why[sizeof c->error];
			memcpy(why, c->error, sizeof why);
			nicless_ask(c, NICLESS_OP_DESTROY_QP, &q->qpn, sizeof q->qpn, 0, 0);
			memcpy(c->error, why, sizeof why);
		}
	}
	if (error) {
		nicless_qp_free(q);
		r->used = used;
	}
	return error;
}

/* nicless_qp_connect with a peer that sends its first packet with the number psn. */
static inline int nicless_qp_connect_from(struct nicless_client *c, const struct nicless_qp *q, uint32_t peer,
                                          uint64_t guid, uint32_t psn) {
	struct nicless_qp_attr a;
	int error;
	memset(&a, 0, sizeof a);
	a.qpn = q->qpn;
	a.state = NICLESS_RTR;
	a.mask = NICLESS_ATTR_STATE | NICLESS_ATTR_GUID | NICLESS_ATTR_PATH_MTU | NICLESS_ATTR_DEST_QPN |
	         NICLESS_ATTR_RQ_PSN;
	a.guid = guid;
	a.path_mtu = 5;
	a.dest_qpn = peer;
	a.rq_psn = psn;
	if (q->type == NICLESS_RC) {
		a.mask |= NICLESS_ATTR_MAX_DEST_RD_ATOMIC | NICLESS_ATTR_MIN_RNR_TIMER;
		a.max_dest_rd_atomic = c->device.max_rd_atomic;
		a.min_rnr_timer = 12; /* 0.64 ms */
	}
	if ((error = nicless_modify_qp(c, &a)) != 0)
		return error;
	a.state = NICLESS_RTS;
	a.mask = NICLESS_ATTR_STATE | NICLESS_ATTR_SQ_PSN;
	if (q->type == NICLESS_RC) {
		a.mask |= NICLESS_ATTR_TIMEOUT | NICLESS_ATTR_RETRY_COUNT | NICLESS_ATTR_RNR_RETRY |
		          NICLESS_ATTR_MAX_RD_ATOMIC;
		a.timeout = 14; /* 67 ms */
		a.retry_count = 7;
		a.rnr_retry = 7;
		a.max_rd_atomic = c->device.max_rd_atomic;
	}
	return nicless_modify_qp(c, &a);
}

/*
 * Connects a queue pair to the queue pair with number peer on the engine with this
 * guid. The guid of a peer on the same engine is client.device.guid. The peer must
 * also connect to this queue pair.
 */
static inline int nicless_qp_connect(struct nicless_client *c, const struct nicless_qp *q, uint32_t peer,
                                     uint64_t guid) {
	return nicless_qp_connect_from(c, q, peer, guid, 0);
}

/*
 * Describes the rings, the record and the register of a queue pair, as mlx5dv_init_obj does for a
 * verbs QP.
 */
static inline void nicless_qp_dv(const struct nicless_qp *q, struct nicless_dv_qp *dv) {
	memset(dv, 0, sizeof *dv);
	dv->dbrec = q->sq.record;
	dv->sq.buf = q->sq.ring;
	dv->sq.wqe_cnt = (uint32_t)q->sq.size;
	dv->sq.stride = NICLESS_BLOCK;
	dv->rq.buf = q->rq.ring;
	dv->rq.wqe_cnt = (uint32_t)q->rq.size;
	dv->rq.stride = (uint32_t)q->rq.stride;
	dv->bf.reg = q->reg;
	dv->bf.size = NICLESS_REG_HALF;
}

/*
 * Describes the ring and the record of a completion queue in the same way. cqn is the number that
 * nicless_cq_open returned.
 */
static inline void nicless_cq_dv(const struct nicless_client *c, const struct nicless_cq *q, uint32_t cqn,
                                 struct nicless_dv_cq *dv) {
	memset(dv, 0, sizeof *dv);
	dv->buf = q->ring;
	dv->dbrec = q->record;
	dv->cqe_cnt = (uint32_t)1 << q->log;
	dv->cqe_size = q->stride;
	dv->cq_uar = c->uar;
	dv->cqn = cqn;
}

#endif
