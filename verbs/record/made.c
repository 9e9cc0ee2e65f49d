/* Notes new objects. mlx5dv_init_obj of libmlx5 tells where their rings are. */
#include "record.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Whether an object is new. The struct of one that is about to be destroyed may be used again already. */
static bool fresh(enum nr_type type, const void *handle) {
	const struct nr_object *o = nr_find(type, handle);
	return !o || o->going;
}

static int init(struct mlx5dv_obj *obj, uint64_t types) {
	__typeof__(&mlx5dv_init_obj) f = NR_REAL(mlx5dv_init_obj);
	return f ? f(obj, types) : -1;
}

static uint32_t domain(struct ibv_pd *pd) {
	struct mlx5dv_pd out = {0};
	struct mlx5dv_obj obj = {.pd = {.in = pd, .out = &out}};
	return pd && !init(&obj, MLX5DV_OBJ_PD) ? out.pdn : 0;
}

void nr_made_context(struct ibv_context *context) {
	struct nr_head h = {.kind = NR_MAKE_CONTEXT, .time = nr_now()};
	__typeof__(&mlx5dv_is_supported) supported;
	__typeof__(&ibv_query_gid) query;
	struct nr_object *o;
	struct {
		union ibv_gid gid;
		char name[IBV_SYSFS_NAME_MAX];
	} data = {0};
	static bool said;
	if (!context)
		return; /* errno stays */
	supported = NR_REAL(mlx5dv_is_supported);
	query = NR_REAL(ibv_query_gid);
	if (!supported || !supported(context->device)) {
		if (!said)
			nr_say("nicless: %s is no mlx5 device: it is not recorded\n", context->device->name);
		said = true;
		return;
	}
	if (query)
		query(context, 1, 0, &data.gid);
	memcpy(data.name, context->device->name, sizeof data.name - 1);
	if (!nr_lock())
		return; /* objects that a handler of a signal makes are not recorded */
	if (nr_open() && fresh(NR_CONTEXT, context) && (o = nr_add(NR_CONTEXT, context, NULL, 0))) {
		h.id = o->id;
		nr_write(&h, &data, sizeof data);
		nr_wrap_context(o, context);
	}
	nr_unlock();
}

/* Returns the object of a device if what it makes is recorded. The caller holds the lock. */
static struct nr_object *owner(const struct ibv_context *context) {
	struct nr_object *o = nr_find(NR_CONTEXT, context);
	return nr_records(o) ? o : NULL;
}

/* mlx5dv_init_obj notes in the struct of the queue that somebody else reads it: libmlx5 leaves the entries of
 * a QP that is destroyed there then (MLX5_CQ_FLAGS_DV_OWNED of mlx5.h). Here nobody does, so the bit is
 * cleared. It is the only one that the call changes in a new queue, which no other thread knows. If more has
 * changed, or nothing, all stays as it is. Returns false if mlx5dv_init_obj has failed. */
static bool init_cq(struct ibv_cq *cq, struct mlx5dv_cq *out, bool *kept) {
	enum { MOST = 4096 }; /* bytes of struct mlx5_cq, which has less than 600 */
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = out}};
	size_t n = malloc_usable_size(cq), at = 0, changed = 0;
	uint8_t before[MOST], *now = (uint8_t *)cq, bit;
	if (n > MOST)
		n = 0; /* it is not what was allocated */
	memcpy(before, cq, n);
	if (init(&obj, MLX5DV_OBJ_CQ))
		return false;
	for (size_t i = 0; i < n; i++)
		if (before[i] != now[i]) {
			at = i;
			changed++;
		}
	bit = n ? (uint8_t)(before[at] ^ now[at]) : 0;
	*kept = changed != 1 || (bit & (bit - 1)) || !(now[at] & bit);
	if (!*kept)
		now[at] = before[at];
	return true;
}

void nr_made_cq(struct ibv_cq *cq, bool extended) {
	struct mlx5dv_cq out = {0};
	struct nr_head h = {.kind = NR_MAKE_CQ, .time = nr_now()};
	struct nr_object *o, *context;
	uint32_t data[3];
	bool kept = false, known = cq && init_cq(cq, &out, &kept);
	if (!cq)
		return;
	if (!nr_lock())
		return; /* objects that a handler of a signal makes are not recorded */
	context = owner(cq->context);
	if (known && context && fresh(NR_CQ, cq) && (o = nr_add(NR_CQ, cq, context, out.cqn))) {
		o->u.cq.ring = out.buf;
		o->u.cq.record = out.dbrec;
		o->u.cq.entries = out.cqe_cnt;
		o->u.cq.kept = kept;
		o->u.cq.size = out.cqe_size;
		h.id = o->id;
		h.value = context->id;
		data[0] = out.cqn;
		data[1] = out.cqe_cnt;
		data[2] = out.cqe_size;
		nr_write(&h, data, sizeof data);
		if (!(o->u.cq.copied = calloc(out.cqe_cnt, sizeof *o->u.cq.copied))) {
			nr_lost(o->id, NR_LOST_MEMORY);
			o->u.cq.entries = 0;
		}
		if (extended)
			nr_wrap_cq(o, (struct ibv_cq_ex *)cq);
	}
	nr_unlock();
}

void nr_made_srq(struct ibv_srq *srq) {
	struct mlx5dv_srq out = {.comp_mask = MLX5DV_SRQ_MASK_SRQN};
	struct mlx5dv_obj obj = {.srq = {.in = srq, .out = &out}};
	struct nr_head h = {.kind = NR_MAKE_SRQ, .time = nr_now()};
	struct nr_object *o, *context;
	uint32_t data[4];
	if (!srq || init(&obj, MLX5DV_OBJ_SRQ))
		return;
	data[0] = out.srqn;
	data[1] = domain(srq->pd);
	data[2] = out.tail + 1; /* the last of all entries, which are free */
	data[3] = out.stride;
	if (!nr_lock())
		return; /* objects that a handler of a signal makes are not recorded */
	context = owner(srq->context);
	if (context && fresh(NR_SRQ, srq) && (o = nr_add(NR_SRQ, srq, context, out.srqn))) {
		o->u.srq.ring = out.buf;
		o->u.srq.entries = out.tail + 1;
		o->u.srq.stride = out.stride;
		h.id = o->id;
		h.value = context->id;
		nr_write(&h, data, sizeof data);
	}
	nr_unlock();
}

static uint64_t id(const struct nr_object *o) { return o ? o->id : 0; }

void nr_made_qp(struct ibv_qp *qp) {
	struct mlx5dv_qp out = {0};
	struct mlx5dv_obj obj = {.qp = {.in = qp, .out = &out}};
	struct nr_head h = {.kind = NR_MAKE_QP, .time = nr_now()};
	__typeof__(&ibv_qp_to_qp_ex) extended = NR_REAL(ibv_qp_to_qp_ex);
	struct ibv_qp_ex *ex = qp && extended ? extended(qp) : NULL;
	struct nr_object *o, *context;
	struct nr_qp data = {0};
	bool rings = qp && (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UC || qp->qp_type == IBV_QPT_UD);
	/* mlx5dv_init_obj reads what queue pairs of other transports (DC) do not have. */
	if (!qp || (rings && init(&obj, MLX5DV_OBJ_QP)))
		return;
	data.pd = domain(qp->pd);
	if (!nr_lock())
		return; /* objects that a handler of a signal makes are not recorded */
	context = owner(qp->context);
	if (context && fresh(NR_QP, qp) && (o = nr_add(NR_QP, qp, context, qp->qp_num))) {
		o->u.qp.sq = out.sq.buf;
		o->u.qp.rq = out.rq.buf;
		o->u.qp.record = out.dbrec;
		o->u.qp.blocks = out.sq.wqe_cnt;
		o->u.qp.receives = qp->srq ? 0 : out.rq.wqe_cnt;
		o->u.qp.stride = out.rq.stride;
		o->u.qp.type = (uint8_t)qp->qp_type;
		o->u.qp.srq = qp->srq ? nr_find(NR_SRQ, qp->srq) : NULL;
		o->u.qp.send_cq = qp->send_cq ? nr_find(NR_CQ, qp->send_cq) : NULL;
		o->u.qp.recv_cq = qp->recv_cq ? nr_find(NR_CQ, qp->recv_cq) : NULL;
		h.id = o->id;
		h.value = context->id;
		data.send_cq = id(o->u.qp.send_cq);
		data.recv_cq = id(o->u.qp.recv_cq);
		data.srq = id(o->u.qp.srq);
		data.number = qp->qp_num;
		data.type = qp->qp_type;
		data.blocks = out.sq.wqe_cnt;
		data.receives = o->u.qp.receives;
		data.stride = out.rq.stride;
		nr_write(&h, &data, sizeof data);
		if (!rings)
			nr_lost(o->id, NR_LOST_TRANSPORT);
		else if (out.sq.wqe_cnt && !(o->u.qp.shadow = calloc(out.sq.wqe_cnt, 64)))
			nr_lost(o->id, NR_LOST_MEMORY);
		if (ex)
			nr_wrap_qp(o, ex);
	}
	nr_unlock();
}

void nr_made_key(struct ibv_mr *mr, uint64_t address, uint64_t iova, uint32_t access) {
	struct nr_head h = {.kind = NR_MAKE_KEY, .time = nr_now()};
	struct nr_object *o, *context;
	struct nr_key data = {0};
	if (!mr)
		return;
	data.address = address;
	data.iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	data.length = mr->length;
	data.number = mr->lkey;
	data.access = access;
	data.pd = domain(mr->pd);
	if (!nr_lock())
		return; /* objects that a handler of a signal makes are not recorded */
	context = owner(mr->context);
	if (context && fresh(NR_KEY, mr)) {
		if (address + data.length < address || data.length > UINT64_C(1) << 56 || !address)
			nr_lost(context->id, NR_LOST_KEY);
		else if ((o = nr_add(NR_KEY, mr, context, mr->lkey))) {
			o->u.key.address = address;
			o->u.key.iova = data.iova;
			o->u.key.length = data.length;
			o->u.key.access = access;
			h.id = o->id;
			h.value = context->id;
			nr_write(&h, &data, sizeof data);
		}
	}
	nr_unlock();
}
