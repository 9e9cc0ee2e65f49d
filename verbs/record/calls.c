/* The exported functions of libibverbs and libmlx5 that open devices, and make, change and destroy objects.
 * They have no versions here: a reference of any version finds them in a library that is preloaded. */
#include "record.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
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

NR_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device) {
	struct ibv_context *c;
	NR_CALL(NULL, ibv_open_device)
	c = f(device);
	nr_made_context(c);
	return c;
}

NR_EXPORT struct ibv_context *ibv_import_device(int fd) {
	struct ibv_context *c;
	NR_CALL(NULL, ibv_import_device)
	c = f(fd);
	nr_made_context(c);
	return c;
}

NR_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int vector) {
	struct ibv_cq *cq;
	NR_CALL(NULL, ibv_create_cq)
	cq = f(context, cqe, cq_context, channel, vector);
	nr_made_cq(cq, false);
	return cq;
}

NR_EXPORT struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
					     struct mlx5dv_cq_init_attr *mlx5) {
	struct ibv_cq_ex *cq;
	NR_CALL(NULL, mlx5dv_create_cq)
	cq = f(context, attr, mlx5);
	if (cq)
		nr_made_cq(ibv_cq_ex_to_cq(cq), true);
	return cq;
}

NR_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr) {
	struct ibv_srq *srq;
	NR_CALL(NULL, ibv_create_srq)
	srq = f(pd, attr);
	nr_made_srq(srq);
	return srq;
}

NR_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
	struct ibv_qp *qp;
	NR_CALL(NULL, ibv_create_qp)
	qp = f(pd, attr);
	nr_made_qp(qp);
	return qp;
}

NR_EXPORT struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
					  struct mlx5dv_qp_init_attr *mlx5) {
	struct ibv_qp *qp;
	NR_CALL(NULL, mlx5dv_create_qp)
	qp = f(context, attr, mlx5);
	nr_made_qp(qp);
	return qp;
}

NR_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access) {
	struct ibv_mr *mr;
	NR_CALL(NULL, ibv_reg_mr)
	mr = f(pd, addr, length, access);
	nr_made_key(mr, (uintptr_t)addr, (uintptr_t)addr, (uint32_t)access);
	return mr;
}

NR_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access) {
	struct ibv_mr *mr;
	NR_CALL(NULL, ibv_reg_mr_iova)
	mr = f(pd, addr, length, iova, access);
	nr_made_key(mr, (uintptr_t)addr, iova, (uint32_t)access);
	return mr;
}

NR_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
					  unsigned int access) {
	struct ibv_mr *mr;
	NR_CALL(NULL, ibv_reg_mr_iova2)
	mr = f(pd, addr, length, iova, access);
	nr_made_key(mr, (uintptr_t)addr, iova, access);
	return mr;
}

/* Memory of another device has no address here, so its bytes are not in the record. */
NR_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					   int access) {
	struct ibv_mr *mr;
	NR_CALL(NULL, ibv_reg_dmabuf_mr)
	mr = f(pd, offset, length, iova, fd, access);
	nr_made_key(mr, 0, iova, (uint32_t)access);
	return mr;
}

/* Without the lock (see nr_lock) nothing of an object can be recorded from now on. */
static void untold(struct nr_object *o) {
	static bool said;
	o->going = true;
	if (!said)
		nr_say("nicless: a signal handler has changed object %llu: it is recorded until then\n",
		       (unsigned long long)o->id);
	said = true;
}

/* Calls f for the completion queues of a QP. */
static void each_cq(struct nr_object *qp, void (*f)(struct nr_object *)) {
	struct nr_object *a = qp->u.qp.send_cq, *b = qp->u.qp.recv_cq;
	if (a)
		f(a);
	if (b && b != a)
		f(b);
}

/* Precedes a call that changes an object. Copies the work of the object; if the call ends it, by a destroy or
 * a reset, nothing of it is read until the call has returned. Returns NULL if it is not known. */
static struct nr_object *before(enum nr_type type, const void *handle, bool ends) {
	uint64_t time = nr_now();
	bool locked = nr_lock();
	struct nr_object *o = nr_find(type, handle);
	if (!locked) {
		if (o && ends)
			untold(o);
		return NULL;
	}
	if (nr_records(o) && type == NR_QP) {
		nr_copy_posted(o, time);
		each_cq(o, nr_copy_completions);
		o->u.qp.cleans = ends;
		if (ends)
			each_cq(o, nr_cleans);
	}
	if (nr_records(o) && type == NR_CQ)
		nr_copy_completions(o);
	if (o && ends)
		o->going = true;
	nr_unlock();
	return o;
}

/* Waits until no thread is about to take entries: it is not known then which ones it has. Takes the lock. */
static bool quiet(const struct nr_object *qp) {
	enum { PATIENCE = 1000 }; /* polls take less than a time slice */
	for (int tries = 0;; tries++) {
		const struct nr_object *a, *b;
		if (!nr_lock())
			return false;
		a = qp->u.qp.send_cq;
		b = qp->u.qp.recv_cq;
		if (tries == PATIENCE || !((a && a->u.cq.promised) || (b && b->u.cq.promised)))
			return true;
		nr_unlock();
		sched_yield();
	}
}

/* Follows such a call of a QP, and takes the lock. Returns false without it. */
static bool after_qp(struct nr_object *o, bool done) {
	if (!o->u.qp.cleans)
		return nr_lock();
	if (!quiet(o))
		return false;
	o->u.qp.cleans = false;
	if (o->u.qp.send_cq)
		nr_cleaned(o->u.qp.send_cq, o->number, done);
	if (o->u.qp.recv_cq && o->u.qp.recv_cq != o->u.qp.send_cq)
		nr_cleaned(o->u.qp.recv_cq, o->number, done);
	return true;
}

/* Follows a call that destroys an object, which is forgotten if that was done. */
static void after(struct nr_object *o, uint64_t time, bool done) {
	struct nr_head h = {.kind = NR_GONE, .time = time};
	if (!o || !(o->type == NR_QP ? after_qp(o, done) : nr_lock()))
		return;
	h.id = o->id;
	o->going = false;
	if (done && nr_records(o))
		nr_lost_own(o);
	if (done && nr_records(o))
		nr_write(&h, NULL, 0);
	if (done)
		nr_remove(o);
	nr_unlock();
}

#define NR_DESTROY(name, type, handle)                                                             \
	struct nr_object *o;                                                                        \
	uint64_t time = nr_now();                                                                   \
	int result;                                                                                 \
	NR_CALL(ENOSYS, name)                                                                       \
	o = before(type, handle, true);                                                             \
	result = f(handle);                                                                         \
	after(o, time, !result);                                                                    \
	return result;

NR_EXPORT int ibv_destroy_cq(struct ibv_cq *cq) { NR_DESTROY(ibv_destroy_cq, NR_CQ, cq) }

NR_EXPORT int ibv_destroy_srq(struct ibv_srq *srq) { NR_DESTROY(ibv_destroy_srq, NR_SRQ, srq) }

NR_EXPORT int ibv_destroy_qp(struct ibv_qp *qp) { NR_DESTROY(ibv_destroy_qp, NR_QP, qp) }

NR_EXPORT int ibv_dereg_mr(struct ibv_mr *mr) { NR_DESTROY(ibv_dereg_mr, NR_KEY, mr) }

NR_EXPORT int ibv_close_device(struct ibv_context *context) { NR_DESTROY(ibv_close_device, NR_CONTEXT, context) }

NR_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access) {
	struct nr_object *o;
	uint64_t at = 0, time = nr_now();
	int result;
	NR_CALL(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr)
	o = before(NR_KEY, mr, true);
	if (o)
		at = o->u.key.address;
	result = f(mr, flags, pd, addr, length, access);
	if (result)
		after(o, time, false);
	else if (o) {
		if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
			at = (uintptr_t)addr;
		if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
			access = (int)o->u.key.access;
		after(o, time, true);
		nr_made_key(mr, at, at, (uint32_t)access);
	}
	return result;
}

NR_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe) {
	struct nr_object *o;
	int result;
	NR_CALL(ENOSYS, ibv_resize_cq)
	o = before(NR_CQ, cq, true);
	result = f(cq, cqe);
	if (!o || !nr_lock())
		return result;
	o->going = false;
	/* Its entries have moved, or a thread has taken some that were not copied. */
	if (nr_records(o) && o->u.cq.entries && (!result || nr_missed(o))) {
		nr_lost(o->id, NR_LOST_RESIZED);
		o->u.cq.entries = 0;
	}
	nr_unlock();
	return result;
}

/* A program that asks where a ring is may use it without functions. As long as it calls none for it, nothing
 * of the ring is copied, because it is not known when an entry was written or read. */
static void asked(enum nr_type type, const void *handle) {
	struct nr_object *o;
	if (!nr_lock())
		return;
	o = nr_find(type, handle);
	if (o)
		o->own = true;
	nr_unlock();
}

NR_EXPORT int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t types) {
	int result;
	NR_CALL(ENOSYS, mlx5dv_init_obj)
	if (types & MLX5DV_OBJ_QP)
		asked(NR_QP, obj->qp.in);
	if (types & MLX5DV_OBJ_CQ)
		asked(NR_CQ, obj->cq.in);
	result = f(obj, types);
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
	struct nr_head h = {.kind = NR_MODIFY, .time = nr_now()};
	bool resets = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET;
	struct nr_object *o;
	int result;
	NR_CALL(ENOSYS, ibv_modify_qp)
	o = before(NR_QP, qp, resets);
	result = f(qp, attr, mask);
	if (!o || !after_qp(o, !result))
		return result;
	o->going = false;
	if (o->u.qp.complete)
		nr_wrap_qp(o, (struct ibv_qp_ex *)qp); /* libmlx5 has another wr_complete from RTS on */
	if (!result && nr_records(o)) {
		change(&o->u.qp.attributes, attr, mask);
		if (resets)
			o->u.qp.posted = o->u.qp.done = 0;
		h.id = o->id;
		nr_write(&h, &o->u.qp.attributes, sizeof o->u.qp.attributes);
	}
	nr_unlock();
	return result;
}
