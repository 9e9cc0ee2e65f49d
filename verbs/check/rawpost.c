/* rawpost [DEVICE]: posts to the queues of a queue pair of libmlx5 without libmlx5, like a
 * program that posts from a GPU. mlx5dv_init_obj returns where the queues are, and RDMaxcel's
 * functions (include/nicless/rdmaxcel.h) write the WQEs, ring the doorbell, and read the CQEs.
 * */
#include "check.h"

#include <infiniband/mlx5dv.h>
#include <sched.h>

#include "nicless/rdmaxcel.h"

enum { DEPTH = 64, SIZE = 4096, LAPS = 50 };

static struct ibv_context *context;
static struct ibv_pd *pd;

/* A queue pair, and its queues as the device sees them. */
struct raw {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct mlx5dv_qp q;
	struct mlx5dv_cq c;
	uint64_t posted, received;
	uint32_t polled;
};

static void look(struct raw *r) {
	struct mlx5dv_obj o;
	memset(&o, 0, sizeof o);
	o.qp.in = r->qp;
	o.qp.out = &r->q;
	o.cq.in = r->cq;
	o.cq.out = &r->c;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ));
	SAME(r->q.sq.stride, 64);
	SAME(r->q.rq.stride, 16);
	SAME(r->c.cqe_size, 64);
	MUST(r->q.bf.reg && r->q.dbrec && r->c.dbrec);
}

static void make(struct raw *r) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {DEPTH, DEPTH, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	memset(r, 0, sizeof *r);
	MUST((r->cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = r->cq;
	MUST((r->qp = ibv_create_qp(pd, &init)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	DO(ibv_modify_qp(r->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	look(r);
}

static void post(struct raw *r, enum nicless_opcode opcode, const void *from, uint32_t lkey, uint32_t n,
                 const void *to, uint32_t rkey, bool signaled) {
	wqe_params_t w = {(uintptr_t)from, lkey, n, r->posted, signaled, (uint32_t)opcode, (uintptr_t)to, rkey,
	                  r->qp->qp_num, r->q.sq.buf, (uint32_t *)r->q.dbrec, r->q.sq.wqe_cnt};
	send_wqe(w);
	db_ring(r->q.bf.reg, (uint8_t *)r->q.sq.buf + (r->posted & (r->q.sq.wqe_cnt - 1)) * r->q.sq.stride);
	r->posted++;
}

static void receive(struct raw *r, const void *into, uint32_t lkey, uint32_t n) {
	wqe_params_t w = {(uintptr_t)into, lkey, n, r->received++, false, 0, 0, 0, r->qp->qp_num, r->q.rq.buf,
	                  (uint32_t *)r->q.dbrec, r->q.rq.wqe_cnt};
	nicless_recv_wqe(w, r->q.rq.stride);
}

/* Waits for one CQE and returns its byte count. */
static int32_t poll(struct raw *r) {
	cqe_poll_params_t p = {r->c.buf, r->c.cqe_size, r->polled, r->c.cqe_cnt, (uint32_t *)r->c.dbrec};
	int32_t bytes = -1;
	long i;
	for (i = 0; bytes == -1; i++) {
		cqe_poll(&bytes, p);
		MUST(i < 20 * 1000 * 1000);
		sched_yield();
	}
	r->polled++;
	MUST(bytes != -2); /* an error */
	return bytes;
}

int main(int argc, char **argv) {
	static struct raw a, b;
	static uint8_t near[SIZE], far[SIZE];
	struct ibv_mr *mine, *theirs;
	uint64_t i;
	uint32_t n;
	context = open_device(argc > 1 ? argv[1] : NULL);
	MUST(mlx5dv_is_supported(context->device));
	MUST((pd = ibv_alloc_pd(context)));
	make(&a);
	make(&b);
	connect_with(a.qp, b.qp);
	connect_with(b.qp, a.qp);
	MUST((mine = ibv_reg_mr(pd, near, SIZE, IBV_ACCESS_LOCAL_WRITE)));
	MUST((theirs = ibv_reg_mr(pd, far, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	                          IBV_ACCESS_REMOTE_READ)));

	/* Writes over many laps of the ring; every sixteenth write is signaled. */
	for (i = 0; i < LAPS * DEPTH; i++) {
		snprintf(doing, sizeof doing, "write %llu", (unsigned long long)i);
		n = (uint32_t)(i % (SIZE - 1)) + 1;
		if (i % 16 == 0)
			pattern_fill(near, i, 0, SIZE);
		post(&a, NICLESS_WRITE, near, mine->lkey, n, far, theirs->rkey, i % 16 == 15);
		if (i % 16 == 15) {
			poll(&a);
			pattern_check(far, i - 15, 0, n, "what was written");
		}
	}
	strcpy(doing, "read");
	pattern_fill(far, 77, 0, SIZE);
	post(&a, NICLESS_READ, near, mine->lkey, SIZE, far, theirs->rkey, true);
	SAME(poll(&a), SIZE);
	pattern_check(near, 77, 0, SIZE, "what was read");
	/* Writes with immediate consume receives. Writes and receives are posted without libmlx5. */
	for (i = 0; i < 3 * DEPTH; i++) {
		snprintf(doing, sizeof doing, "write with immediate %llu", (unsigned long long)i);
		receive(&b, far, theirs->lkey, SIZE);
		pattern_fill(near, ~i, 0, SIZE);
		post(&a, NICLESS_WRITE_IMM, near, mine->lkey, 100, far, theirs->rkey, true);
		poll(&a);
		SAME(poll(&b), 100);
		pattern_check(far, ~i, 0, 100, "what was written");
	}
	strcpy(doing, "end");
	DO(ibv_dereg_mr(mine));
	DO(ibv_dereg_mr(theirs));
	DO(ibv_destroy_qp(a.qp));
	DO(ibv_destroy_qp(b.qp));
	DO(ibv_destroy_cq(a.cq));
	DO(ibv_destroy_cq(b.cq));
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("rawpost: %llu WQEs into rings of %u blocks: ok\n", (unsigned long long)a.posted, a.q.sq.wqe_cnt);
	return 0;
}
