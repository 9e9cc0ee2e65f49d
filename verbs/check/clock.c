/* clock [DEVICE]: the device clock, which ibv_query_rt_values_ex reads, and the time stamps of
 * completions are one clock. Each reading is between the time stamps of the completions before and
 * after it. The clock counts at the rate that the device states, and mlx5dv_ts_to_ns converts it to
 * real time. */
#include "check.h"

#include <stddef.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

#include "../shim/libibverbs.h"

/* Assumptions of the preloaded library about libibverbs. */
#define FROM_CONTEXT(type, field) ((long)offsetof(type, field) - (long)offsetof(type, context))
#define HERE(field) FROM_CONTEXT(struct verbs_context, field)
#define THERE(field) FROM_CONTEXT(struct nv_verbs_context, field)
typedef char same_function[HERE(query_rt_values) == THERE(query_rt_values) ? 1 : -1];
typedef char same_size[HERE(sz) == THERE(size) ? 1 : -1];
typedef char same_fd[HERE(context.cmd_fd) == THERE(context.cmd_fd) ? 1 : -1];
typedef char same_compat[HERE(context.abi_compat) == THERE(context.abi_compat) ? 1 : -1];
typedef char same_values[sizeof(struct ibv_values_ex) == sizeof(struct nv_ibv_values) ? 1 : -1];
#define CLOCK_IN(type) offsetof(type, raw_clock)
typedef char same_clock[CLOCK_IN(struct ibv_values_ex) == CLOCK_IN(struct nv_ibv_values) ? 1 : -1];
typedef char same_mask[IBV_VALUES_MASK_RAW_CLOCK == NV_RAW_CLOCK ? 1 : -1];
#define SAME_OPERATION(name, place)                                                                        \
	typedef char same_##name[offsetof(struct ibv_context, ops.name) ==                                 \
	                                 offsetof(struct nv_ibv_context, operations[place])                \
	                             ? 1                                                                   \
	                             : -1]
SAME_OPERATION(post_send, NV_OP_POST_SEND);
SAME_OPERATION(req_notify_cq, NV_OP_REQ_NOTIFY_CQ);
typedef char same_qp[offsetof(struct ibv_qp, context) == offsetof(struct nv_ibv_object, context) ? 1 : -1];
typedef char same_cq[offsetof(struct ibv_cq, context) == offsetof(struct nv_ibv_object, context) ? 1 : -1];
typedef char same_state[offsetof(struct ibv_qp, state) == offsetof(struct nv_ibv_qp_ex, numbers[NV_QP_STATE]) ? 1 : -1];
typedef char same_rts[(int)IBV_QPS_RTS == (int)NV_QPS_RTS ? 1 : -1];
typedef char same_complete[offsetof(struct ibv_qp_ex, wr_complete) == offsetof(struct nv_ibv_qp_ex, wr_complete) ? 1 : -1];

enum { ROUNDS = 20000, QUEUES = 4, SECOND = 1000 * 1000 * 1000 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static uint64_t words[2];

/* A queue pair that is connected to itself. */
struct queue {
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
};

static void make(struct queue *q, uint64_t wc_flags) {
	struct ibv_cq_init_attr_ex a = {0};
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {4, 4, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr m = {0};
	a.cqe = 16;
	a.wc_flags = wc_flags;
	MUST((q->cq = ibv_create_cq_ex(context, &a)));
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(q->cq);
	MUST((q->qp = ibv_create_qp(pd, &init)));
	m.qp_state = IBV_QPS_INIT;
	m.port_num = 1;
	m.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	DO(ibv_modify_qp(q->qp, &m, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	connect_with(q->qp, q->qp);
}

static void destroy(struct queue *q) {
	DO(ibv_destroy_qp(q->qp));
	DO(ibv_destroy_cq(ibv_cq_ex_to_cq(q->cq)));
}

/* Writes a word. Returns the time stamp of the completion. */
static uint64_t work(struct queue *q, uint64_t (*stamp)(struct ibv_cq_ex *)) {
	struct ibv_sge piece = {(uintptr_t)&words[0], 8, mr->lkey};
	struct ibv_send_wr wr = {0}, *bad;
	struct ibv_poll_cq_attr attr = {0};
	uint64_t at;
	long i;
	int error;
	wr.sg_list = &piece;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)&words[1];
	wr.wr.rdma.rkey = mr->rkey;
	DO(ibv_post_send(q->qp, &wr, &bad));
	for (i = 0; (error = ibv_start_poll(q->cq, &attr)) == ENOENT; i++)
		MUST(i < 1000 * 1000 * 1000);
	DO(error);
	SAME(q->cq->status, IBV_WC_SUCCESS);
	at = stamp(q->cq);
	ibv_end_poll(q->cq);
	return at;
}

static uint64_t now(void) {
	struct ibv_values_ex v = {0};
	v.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	DO(ibv_query_rt_values_ex(context, &v));
	SAME(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	SAME(v.raw_clock.tv_sec, 0);
	return (uint64_t)v.raw_clock.tv_nsec;
}

static uint64_t nanoseconds(clockid_t id) {
	struct timespec t;
	DO(clock_gettime(id, &t));
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void order(void) {
	static struct queue queues[QUEUES];
	uint64_t last = 0;
	int i;
	strcpy(doing, "order");
	for (i = 0; i < QUEUES; i++)
		make(&queues[i], IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	for (i = 0; i < ROUNDS; i++) {
		uint64_t before = now(), stamp = work(&queues[i % QUEUES], ibv_wc_read_completion_ts), after = now();
		if (last > before || before > stamp || stamp > after)
			FAIL("round %d: %llu, %llu, %llu, %llu", i, (unsigned long long)last, (unsigned long long)before,
			     (unsigned long long)stamp, (unsigned long long)after);
		last = after;
	}
	for (i = 0; i < QUEUES; i++)
		destroy(&queues[i]);
}

/* Each reading of one clock is between two of the other, so that a pause only widens the bounds. */
static void rate(void) {
	struct ibv_device_attr_ex a;
	uint64_t outer0, inner0, inner1, outer1, c0, c1;
	double stated;
	strcpy(doing, "rate");
	DO(ibv_query_device_ex(context, NULL, &a));
	outer0 = nanoseconds(CLOCK_MONOTONIC);
	c0 = now();
	inner0 = nanoseconds(CLOCK_MONOTONIC);
	do {
		inner1 = nanoseconds(CLOCK_MONOTONIC);
		c1 = now();
		outer1 = nanoseconds(CLOCK_MONOTONIC);
	} while (inner1 - inner0 < SECOND / 10);
	stated = (double)(c1 - c0) / (double)a.hca_core_clock * 1e6; /* the rate is in kHz */
	if (stated < 0.99 * (double)(inner1 - inner0) || stated > 1.01 * (double)(outer1 - outer0))
		FAIL("%llu cycles at %llu kHz, in %llu to %llu ns", (unsigned long long)(c1 - c0),
		     (unsigned long long)a.hca_core_clock, (unsigned long long)(inner1 - inner0),
		     (unsigned long long)(outer1 - outer0));
}

/* Fails unless ns, nanoseconds of real time, is from between `from` and now. The conversion may be
 * wrong by a tenth of a second. */
static void recent(uint64_t ns, uint64_t from) {
	uint64_t to = nanoseconds(CLOCK_REALTIME);
	if (ns + SECOND / 10 < from || ns > to + SECOND / 10)
		FAIL("%llu, not from %llu to %llu", (unsigned long long)ns, (unsigned long long)from,
		     (unsigned long long)to);
}

static void real_time(void) {
	struct mlx5dv_clock_info info;
	struct queue q;
	uint64_t from = nanoseconds(CLOCK_REALTIME);
	strcpy(doing, "real time");
	DO(mlx5dv_get_clock_info(context, &info));
	recent(mlx5dv_ts_to_ns(&info, now()), from);
	make(&q, IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	recent(mlx5dv_ts_to_ns(&info, work(&q, ibv_wc_read_completion_ts)), from);
	destroy(&q);
	make(&q, IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	recent(work(&q, ibv_wc_read_completion_wallclock_ns), from);
	destroy(&q);
}

static void mistakes(void) {
	struct ibv_values_ex v = {0};
	strcpy(doing, "mistakes");
	v.comp_mask = IBV_VALUES_MASK_RAW_CLOCK | IBV_VALUES_MASK_RAW_CLOCK << 1;
	SAME(ibv_query_rt_values_ex(context, &v), EINVAL);
	v.comp_mask = 0;
	v.raw_clock.tv_nsec = 5;
	DO(ibv_query_rt_values_ex(context, &v));
	SAME(v.comp_mask, 0);
	SAME(v.raw_clock.tv_nsec, 5);
}

static void all(void) {
	MUST((uintptr_t)__VERBS_ABI_IS_EXTENDED == NV_EXTENDED);
	MUST((pd = ibv_alloc_pd(context)));
	MUST((mr = ibv_reg_mr(pd, words, sizeof words, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	order();
	rate();
	real_time();
	mistakes();
	DO(ibv_dereg_mr(mr));
	DO(ibv_dealloc_pd(pd));
}

int main(int argc, char **argv) {
	struct mlx5dv_context_attr a = {0};
	uint64_t before;
	int fd;
	struct ibv_context *first = context = open_device(argc > 1 ? argv[1] : NULL);
	all();
	MUST((context = mlx5dv_open_device(first->device, &a)));
	all();
	DO(ibv_close_device(context));
	strcpy(doing, "import");
	MUST((fd = dup(first->cmd_fd)) >= 0);
	MUST((context = ibv_import_device(fd)));
	before = now();
	MUST(before < now());
	DO(ibv_close_device(context));
	DO(ibv_close_device(first));
	printf("clock: 3 contexts, %d readings in order, rate, real time: ok\n", 2 * ROUNDS);
	return 0;
}
