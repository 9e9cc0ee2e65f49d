/* The functions that programs call by pointers: inline functions of infiniband/verbs.h call what is in
 * struct ibv_context, struct verbs_context, struct ibv_cq_ex and struct ibv_qp_ex. */
#include "record.h"

#include <errno.h>

/* Returns the object of a device; it is there while the device is open. */
static struct ibv_context_ops *real(const struct ibv_context *context) {
	struct nr_object *o;
	nr_lock();
	o = nr_find(NR_CONTEXT, context);
	nr_unlock();
	return &o->u.context.ops;
}

static void posted(const struct ibv_qp *qp, uint64_t time) {
	struct nr_object *o;
	int error = errno;
	nr_lock();
	o = nr_find(NR_QP, qp);
	if (nr_records(o))
		nr_copy_posted(o, time);
	nr_unlock();
	errno = error;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
	uint64_t time = nr_now();
	int result = real(qp->context)->post_send(qp, wr, bad);
	posted(qp, time); /* also those before a bad one */
	return result;
}

static int complete(struct ibv_qp_ex *qp) {
	int (*f)(struct ibv_qp_ex *);
	uint64_t time = nr_now();
	int result;
	nr_lock();
	f = nr_find(NR_QP, &qp->qp_base)->u.qp.complete;
	nr_unlock();
	result = f(qp);
	posted(&qp->qp_base, time);
	return result;
}

/* Returns how many of n entries the program may take. So it takes none that was not copied. */
static int ready(struct nr_object *o, int n) {
	uint32_t most;
	if (!nr_records(o))
		return n;
	nr_copy_completions(o);
	if (!o->u.cq.entries)
		return n; /* it is not recorded any more */
	most = nr_ready(o) - o->u.cq.batch;
	return n > 0 && most < (uint32_t)n ? (int)most : n;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc) {
	int k, error = errno;
	nr_lock();
	k = ready(nr_find(NR_CQ, cq), n);
	nr_unlock();
	errno = error;
	return k == 0 && n > 0 ? 0 : real(cq->context)->poll_cq(cq, k, wc);
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr) {
	struct nr_object *o;
	int (*f)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
	int k, result;
	nr_lock();
	o = nr_find(NR_CQ, cq);
	f = o->u.cq.start_poll;
	k = ready(o, 1);
	nr_unlock();
	result = k ? f(cq, attr) : ENOENT;
	if (!result)
		o->u.cq.batch = 1; /* between start_poll and end_poll the queue belongs to this thread */
	return result;
}

static int next_poll(struct ibv_cq_ex *cq) {
	struct nr_object *o;
	int (*f)(struct ibv_cq_ex *);
	int k, result;
	nr_lock();
	o = nr_find(NR_CQ, cq);
	f = o->u.cq.next_poll;
	k = ready(o, 1);
	nr_unlock();
	result = k ? f(cq) : ENOENT;
	if (!result)
		o->u.cq.batch++;
	return result;
}

static void end_poll(struct ibv_cq_ex *cq) {
	struct nr_object *o;
	nr_lock();
	o = nr_find(NR_CQ, cq);
	nr_unlock();
	o->u.cq.batch = 0; /* end_poll tells the device what was taken */
	o->u.cq.end_poll(cq);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr) {
	struct nr_object *o;
	struct ibv_cq_ex *cq;
	uint64_t time = nr_now();
	nr_lock();
	o = nr_find(NR_CONTEXT, context);
	nr_unlock();
	cq = o->u.context.create_cq_ex(context, attr);
	if (cq)
		nr_made_cq(ibv_cq_ex_to_cq(cq), true, time);
	return cq;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr) {
	struct nr_object *o;
	struct ibv_qp *qp;
	uint64_t time = nr_now();
	nr_lock();
	o = nr_find(NR_CONTEXT, context);
	nr_unlock();
	qp = o->u.context.create_qp_ex(context, attr);
	nr_made_qp(qp, time);
	return qp;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr) {
	struct nr_object *o;
	struct ibv_srq *srq;
	uint64_t time = nr_now();
	nr_lock();
	o = nr_find(NR_CONTEXT, context);
	nr_unlock();
	srq = o->u.context.create_srq_ex(context, attr);
	nr_made_srq(srq, time);
	return srq;
}

void nr_wrap_context(struct nr_object *o, struct ibv_context *context) {
	struct verbs_context *v = verbs_get_ctx(context);
	o->u.context.ops = context->ops;
	context->ops.post_send = post_send;
	context->ops.poll_cq = poll_cq;
	if (!v)
		return;
#define NR_WRAP(name)                                                                              \
	if (v->sz >= sizeof *v - offsetof(struct verbs_context, name) && v->name) {                 \
		o->u.context.name = v->name;                                                        \
		v->name = name;                                                                     \
	}
	NR_WRAP(create_cq_ex)
	NR_WRAP(create_qp_ex)
	NR_WRAP(create_srq_ex)
#undef NR_WRAP
}

void nr_wrap_cq(struct nr_object *o, struct ibv_cq_ex *cq) {
	o->u.cq.start_poll = cq->start_poll;
	o->u.cq.next_poll = cq->next_poll;
	o->u.cq.end_poll = cq->end_poll;
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
}

void nr_wrap_qp(struct nr_object *o, struct ibv_qp_ex *qp) {
	if (!qp->wr_complete || qp->wr_complete == complete)
		return;
	o->u.qp.complete = qp->wr_complete;
	qp->wr_complete = complete;
}
