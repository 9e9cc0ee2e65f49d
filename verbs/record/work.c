/* The functions that programs call by pointers: inline functions of infiniband/verbs.h call what is in
 * struct ibv_context, struct verbs_context, struct ibv_cq_ex and struct ibv_qp_ex. */
#include "record.h"

#include <errno.h>
#include <sched.h>

enum { PATIENCE = 1000 }; /* how often a thread lets others finish their polls: they take less than a slice */

static struct nr_object *find(enum nr_type type, const void *handle) {
	bool locked = nr_lock();
	struct nr_object *o = nr_find(type, handle);
	if (locked)
		nr_unlock();
	return o;
}

/* Returns the functions of a device; they are there while the device is open. */
static struct ibv_context_ops *real(const struct ibv_context *context) {
	return &find(NR_CONTEXT, context)->u.context.ops;
}

static void posted(const struct ibv_qp *qp, uint64_t time) {
	struct nr_object *o;
	int error = errno;
	if (!nr_lock())
		return; /* the next call copies them */
	o = nr_find(NR_QP, qp);
	if (nr_records(o)) {
		o->own = false;
		nr_copy_posted(o, time);
	}
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
	uint64_t time = nr_now();
	int result = find(NR_QP, &qp->qp_base)->u.qp.complete(qp);
	posted(&qp->qp_base, time);
	return result;
}

/* Returns how many of n entries the program may take, which are promised to it, or -1 if it may take all and
 * nobody counts. If other threads are about to take the last ones, it waits for them: a program that is told
 * that a queue is empty may sleep until the next event. */
static int promise(const void *cq, int n, struct nr_object **o) {
	int k = -1, error = errno;
	bool others = false;
	for (int tries = 0; tries < PATIENCE; tries++) {
		if (!nr_lock()) {
			*o = nr_find(NR_CQ, cq);
			break;
		}
		*o = nr_find(NR_CQ, cq);
		if (n > 0 && nr_records(*o) && !(*o)->going && (*o)->u.cq.entries) {
			uint32_t most = nr_ready(*o);
			k = most < (uint32_t)n ? (int)most : n;
			others = (*o)->u.cq.promised;
			if (!(*o)->u.cq.entries)
				k = -1; /* it is not recorded any more */
			else
				(*o)->u.cq.promised += (uint32_t)k;
		}
		nr_unlock();
		if (k || !others)
			break;
		sched_yield();
	}
	errno = error;
	return k;
}

/* Notes that of k promised entries some were taken, within a batch or not. */
static void took(struct nr_object *o, int k, int taken, bool batch) {
	if (k <= 0 || !nr_lock())
		return;
	o->u.cq.promised -= (uint32_t)k;
	if (o->u.cq.entries)
		nr_taken(o, (uint32_t)taken);
	if (batch)
		o->u.cq.batch += (uint32_t)taken;
	nr_unlock();
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc) {
	struct nr_object *o;
	int result, k = promise(cq, n, &o);
	if (!k)
		return 0;
	result = real(cq->context)->poll_cq(cq, k < 0 ? n : k, wc);
	took(o, k, result < 0 ? 0 : result, false);
	return result;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr) {
	struct nr_object *o;
	int result, k = promise(cq, 1, &o);
	if (!k)
		return ENOENT;
	result = o->u.cq.start_poll(cq, attr);
	took(o, k, !result, true);
	return result;
}

static int next_poll(struct ibv_cq_ex *cq) {
	struct nr_object *o;
	int result, k = promise(cq, 1, &o);
	if (!k)
		return ENOENT;
	result = o->u.cq.next_poll(cq);
	took(o, k, !result, true);
	return result;
}

/* After end_poll another thread may have begun a batch already. */
static void end_poll(struct ibv_cq_ex *cq) {
	struct nr_object *o = find(NR_CQ, cq);
	uint32_t batch = o->u.cq.batch;
	o->u.cq.end_poll(cq); /* tells the device what was taken */
	if (!nr_lock())
		return;
	o->u.cq.batch -= batch;
	nr_unlock();
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr) {
	struct ibv_cq_ex *cq;
	cq = find(NR_CONTEXT, context)->u.context.create_cq_ex(context, attr);
	if (cq)
		nr_made_cq(ibv_cq_ex_to_cq(cq), true);
	return cq;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr) {
	struct ibv_qp *qp;
	qp = find(NR_CONTEXT, context)->u.context.create_qp_ex(context, attr);
	nr_made_qp(qp);
	return qp;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr) {
	struct ibv_srq *srq;
	srq = find(NR_CONTEXT, context)->u.context.create_srq_ex(context, attr);
	nr_made_srq(srq);
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
