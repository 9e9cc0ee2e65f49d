/* Notes new objects. mlx5dv_init_obj of libmlx5 tells where their rings are. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

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
	nr_lock();
	if (nr_open() && !nr_find(NR_CONTEXT, context) && (o = nr_add(NR_CONTEXT, context, NULL, 0))) {
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

void nr_made_cq(struct ibv_cq *cq, bool extended, uint64_t time) {
	struct mlx5dv_cq out = {0};
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &out}};
	struct nr_head h = {.kind = NR_MAKE_CQ, .time = time};
	struct nr_object *o, *context;
	uint32_t data[3];
	bool known = cq && !init(&obj, MLX5DV_OBJ_CQ);
	if (!cq)
		return;
	nr_lock();
	context = owner(cq->context);
	if (known && context && !nr_find(NR_CQ, cq) && (o = nr_add(NR_CQ, cq, context, out.cqn))) {
		o->u.cq.ring = out.buf;
		o->u.cq.record = out.dbrec;
		o->u.cq.entries = out.cqe_cnt;
		o->u.cq.size = out.cqe_size;
		h.id = o->id;
		h.value = context->id;
		data[0] = out.cqn;
		data[1] = out.cqe_cnt;
		data[2] = out.cqe_size;
		nr_write(&h, data, sizeof data);
		if (extended)
			nr_wrap_cq(o, (struct ibv_cq_ex *)cq);
	}
	nr_unlock();
}

void nr_made_srq(struct ibv_srq *srq, uint64_t time) {
	struct mlx5dv_srq out = {.comp_mask = MLX5DV_SRQ_MASK_SRQN};
	struct mlx5dv_obj obj = {.srq = {.in = srq, .out = &out}};
	struct nr_head h = {.kind = NR_MAKE_SRQ, .time = time};
	struct nr_object *o, *context;
	uint32_t data[4];
	if (!srq || init(&obj, MLX5DV_OBJ_SRQ))
		return;
	data[0] = out.srqn;
	data[1] = domain(srq->pd);
	data[2] = out.tail + 1; /* the last of all entries, which are free */
	data[3] = out.stride;
	nr_lock();
	context = owner(srq->context);
	if (context && !nr_find(NR_SRQ, srq) && (o = nr_add(NR_SRQ, srq, context, out.srqn))) {
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

void nr_made_qp(struct ibv_qp *qp, uint64_t time) {
	struct mlx5dv_qp out = {0};
	struct mlx5dv_obj obj = {.qp = {.in = qp, .out = &out}};
	struct nr_head h = {.kind = NR_MAKE_QP, .time = time};
	__typeof__(&ibv_qp_to_qp_ex) extended = NR_REAL(ibv_qp_to_qp_ex);
	struct ibv_qp_ex *ex = qp && extended ? extended(qp) : NULL;
	struct nr_object *o, *context;
	struct nr_qp data = {0};
	bool rings = qp && (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UC || qp->qp_type == IBV_QPT_UD);
	/* mlx5dv_init_obj reads what queue pairs of other transports (DC) do not have. */
	if (!qp || (rings && init(&obj, MLX5DV_OBJ_QP)))
		return;
	data.pd = domain(qp->pd);
	nr_lock();
	context = owner(qp->context);
	if (context && !nr_find(NR_QP, qp) && (o = nr_add(NR_QP, qp, context, qp->qp_num))) {
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

void nr_made_key(struct ibv_mr *mr, uint64_t address, uint64_t iova, uint32_t access, uint64_t time) {
	struct nr_head h = {.kind = NR_MAKE_KEY, .time = time};
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
	nr_lock();
	context = owner(mr->context);
	if (context && !nr_find(NR_KEY, mr)) {
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
