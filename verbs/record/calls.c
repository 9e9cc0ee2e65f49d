/* The exported functions of libibverbs and libmlx5 that open devices, and make, change and destroy objects.
 * They have no versions here: a reference of any version finds them in a library that is preloaded. */
#include "record.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A program may have loaded libibverbs by dlopen for itself alone, and libibverbs loads libmlx5 so. */
nr_any_function nr_real(const char *name) {
	static const char *const libraries[] = {"libibverbs.so.1", "libmlx5.so.1"};
	void *symbol = dlsym(RTLD_NEXT, name);
	nr_any_function f;
	for (size_t i = 0; !symbol && i < sizeof libraries / sizeof *libraries; i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY);
		if (library)
			symbol = dlsym(library, name); /* it stays loaded: functions of it are called later */
	}
	memcpy(&f, &symbol, sizeof f);
	return f;
}

#define NR_CALL(failed, name, ...)                                                                  \
	__typeof__(&(name)) f = NR_REAL(name);                                                      \
	uint64_t time = nr_now();                                                                   \
	if (!f) {                                                                                   \
		errno = ENOSYS;                                                                     \
		return failed;                                                                      \
	}

NR_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device) {
	struct ibv_context *c;
	NR_CALL(NULL, ibv_open_device)
	(void)time;
	c = f(device);
	nr_made_context(c);
	return c;
}

NR_EXPORT struct ibv_context *ibv_import_device(int fd) {
	struct ibv_context *c;
	NR_CALL(NULL, ibv_import_device)
	(void)time;
	c = f(fd);
	nr_made_context(c);
	return c;
}

NR_EXPORT struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr) {
	struct ibv_context *c;
	NR_CALL(NULL, mlx5dv_open_device)
	(void)time;
	c = f(device, attr);
	nr_made_context(c);
	return c;
}

NR_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int vector) {
	struct ibv_cq *cq;
	NR_CALL(NULL, ibv_create_cq)
	cq = f(context, cqe, cq_context, channel, vector);
	nr_made_cq(cq, false, time);
	return cq;
}

NR_EXPORT struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
					     struct mlx5dv_cq_init_attr *mlx5) {
	struct ibv_cq_ex *cq;
	NR_CALL(NULL, mlx5dv_create_cq)
	cq = f(context, attr, mlx5);
	if (cq)
		nr_made_cq(ibv_cq_ex_to_cq(cq), true, time);
	return cq;
}

NR_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr) {
	struct ibv_srq *srq;
	NR_CALL(NULL, ibv_create_srq)
	srq = f(pd, attr);
	nr_made_srq(srq, time);
	return srq;
}

NR_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
	struct ibv_qp *qp;
	NR_CALL(NULL, ibv_create_qp)
	qp = f(pd, attr);
	nr_made_qp(qp, time);
	return qp;
}

NR_EXPORT struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
					  struct mlx5dv_qp_init_attr *mlx5) {
	struct ibv_qp *qp;
	NR_CALL(NULL, mlx5dv_create_qp)
	qp = f(context, attr, mlx5);
	nr_made_qp(qp, time);
	return qp;
}

NR_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access) {
	struct ibv_mr *mr;
	NR_CALL(NULL, ibv_reg_mr)
	mr = f(pd, addr, length, access);
	nr_made_key(mr, (uintptr_t)addr, (uintptr_t)addr, (uint32_t)access, time);
	return mr;
}

NR_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access) {
	struct ibv_mr *mr;
	NR_CALL(NULL, ibv_reg_mr_iova)
	mr = f(pd, addr, length, iova, access);
	nr_made_key(mr, (uintptr_t)addr, iova, (uint32_t)access, time);
	return mr;
}

NR_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
					  unsigned int access) {
	struct ibv_mr *mr;
	NR_CALL(NULL, ibv_reg_mr_iova2)
	mr = f(pd, addr, length, iova, access);
	nr_made_key(mr, (uintptr_t)addr, iova, access, time);
	return mr;
}

/* Memory of another device has no address here, so its bytes are not in the record. */
NR_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					   int access) {
	struct ibv_mr *mr;
	NR_CALL(NULL, ibv_reg_dmabuf_mr)
	mr = f(pd, offset, length, iova, fd, access);
	nr_made_key(mr, 0, iova, (uint32_t)access, time);
	return mr;
}

/* Returns the object of a handle if it is recorded, after what it has done was copied. */
static struct nr_object *before(enum nr_type type, const void *handle, uint64_t time) {
	struct nr_object *o;
	nr_lock();
	o = nr_find(type, handle);
	if (nr_records(o) && type == NR_QP) {
		nr_copy_posted(o, time);
		if (o->u.qp.send_cq)
			nr_copy_completions(o->u.qp.send_cq);
		if (o->u.qp.recv_cq)
			nr_copy_completions(o->u.qp.recv_cq);
	}
	if (nr_records(o) && type == NR_CQ)
		nr_copy_completions(o);
	nr_unlock();
	return o;
}

/* Forgets an object that is gone. */
static void gone(struct nr_object *o, uint64_t time) {
	struct nr_head h = {.kind = NR_GONE, .time = time};
	if (!o)
		return;
	nr_lock();
	h.id = o->id;
	if (nr_records(o))
		nr_write(&h, NULL, 0);
	nr_remove(o);
	nr_unlock();
}

#define NR_DESTROY(name, type, handle)                                                             \
	struct nr_object *o;                                                                        \
	int result;                                                                                 \
	NR_CALL(ENOSYS, name)                                                                       \
	o = before(type, handle, time);                                                             \
	result = f(handle);                                                                         \
	if (!result)                                                                                \
		gone(o, time);                                                                      \
	return result;

NR_EXPORT int ibv_destroy_cq(struct ibv_cq *cq) { NR_DESTROY(ibv_destroy_cq, NR_CQ, cq) }

NR_EXPORT int ibv_destroy_srq(struct ibv_srq *srq) { NR_DESTROY(ibv_destroy_srq, NR_SRQ, srq) }

NR_EXPORT int ibv_destroy_qp(struct ibv_qp *qp) { NR_DESTROY(ibv_destroy_qp, NR_QP, qp) }

NR_EXPORT int ibv_dereg_mr(struct ibv_mr *mr) { NR_DESTROY(ibv_dereg_mr, NR_KEY, mr) }

NR_EXPORT int ibv_close_device(struct ibv_context *context) { NR_DESTROY(ibv_close_device, NR_CONTEXT, context) }

NR_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access) {
	struct nr_object *o;
	uint64_t at = 0;
	int result;
	NR_CALL(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr)
	o = before(NR_KEY, mr, time);
	if (o)
		at = o->u.key.address;
	result = f(mr, flags, pd, addr, length, access);
	if (!result && o) {
		if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
			at = (uintptr_t)addr;
		if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
			access = (int)o->u.key.access;
		gone(o, time);
		nr_made_key(mr, at, at, (uint32_t)access, nr_now());
	}
	return result;
}

NR_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe) {
	struct nr_object *o;
	int result;
	NR_CALL(ENOSYS, ibv_resize_cq)
	o = before(NR_CQ, cq, time);
	result = f(cq, cqe);
	nr_lock();
	if (!result && nr_records(o)) { /* its entries have moved */
		nr_lost(o->id, NR_LOST_RESIZED);
		o->u.cq.entries = 0;
	}
	nr_unlock();
	return result;
}

static void change(struct nr_qp_attributes *to, const struct ibv_qp_attr *a, int mask) {
	const struct {
		int bit;
		uint32_t *to, value;
	} words[] = {
	    {IBV_QP_DEST_QPN, &to->peer, a->dest_qp_num},
	    {IBV_QP_PATH_MTU, &to->mtu, UINT32_C(128) << (a->path_mtu & 7)},
	    {IBV_QP_RQ_PSN, &to->rq_psn, a->rq_psn},
	    {IBV_QP_SQ_PSN, &to->sq_psn, a->sq_psn},
	    {IBV_QP_ACCESS_FLAGS, &to->access, a->qp_access_flags},
	    {IBV_QP_QKEY, &to->qkey, a->qkey},
	};
	const struct {
		int bit;
		uint8_t *to, value;
	} bytes[] = {
	    {IBV_QP_MAX_QP_RD_ATOMIC, &to->max_rd_atomic, a->max_rd_atomic},
	    {IBV_QP_MAX_DEST_RD_ATOMIC, &to->max_dest_rd_atomic, a->max_dest_rd_atomic},
	    {IBV_QP_MIN_RNR_TIMER, &to->min_rnr_timer, a->min_rnr_timer},
	    {IBV_QP_RNR_RETRY, &to->rnr_retry, a->rnr_retry},
	    {IBV_QP_RETRY_CNT, &to->retry_count, a->retry_cnt},
	    {IBV_QP_TIMEOUT, &to->timeout, a->timeout},
	    {IBV_QP_PORT, &to->port, a->port_num},
	    {IBV_QP_STATE, &to->state, (uint8_t)a->qp_state},
	};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (mask & words[i].bit)
			*words[i].to = words[i].value;
	for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
		if (mask & bytes[i].bit)
			*bytes[i].to = bytes[i].value;
}

NR_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask) {
	struct nr_head h = {.kind = NR_MODIFY};
	struct nr_object *o;
	int result;
	NR_CALL(ENOSYS, ibv_modify_qp)
	o = before(NR_QP, qp, time);
	result = f(qp, attr, mask);
	nr_lock();
	if (o && o->u.qp.complete)
		nr_wrap_qp(o, (struct ibv_qp_ex *)qp); /* libmlx5 has another wr_complete from RTS on */
	if (!result && nr_records(o)) {
		change(&o->u.qp.attributes, attr, mask);
		if (o->u.qp.attributes.state == IBV_QPS_RESET)
			o->u.qp.posted = o->u.qp.done = 0;
		h.time = time;
		h.id = o->id;
		nr_write(&h, &o->u.qp.attributes, sizeof o->u.qp.attributes);
	}
	nr_unlock();
	return result;
}
