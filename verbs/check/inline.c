/* inline: short data come in the CQE, and libmlx5 copies them to the memory that the work request
 * names. The program reads the CQE before it polls, so it sees whether the data are in it.
 *
 *   inline [DEVICE] */
#include "check.h"

#include <sched.h>

#include <infiniband/mlx5dv.h>

enum { SIZE = 4096, DEPTH = 16, PLAIN = 0, INLINE_32 = 1, INLINE_64 = 2 };

enum kind { SEND, SEND_IMM, SEND_SRQ, READ, FETCH_ADD, COMPARE_SWAP, KINDS };

static const char *const names[] = {"SEND", "SEND with immediate", "SEND into an SRQ", "READ",
	"fetch-and-add", "compare-and-swap"};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static uint8_t memory[2 * SIZE], *const near = memory, *const far = memory + SIZE;

/* A CQ, and how many of its completions have been polled. */
struct queue {
	struct ibv_cq *cq;
	struct mlx5dv_cq c;
	uint32_t polled;
};

struct end {
	struct queue send, receive;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
};

static void make_queue(struct queue *q, int size) {
	struct ibv_cq_init_attr_ex a;
	struct mlx5dv_cq_init_attr m;
	struct mlx5dv_obj o;
	memset(&a, 0, sizeof a);
	memset(&m, 0, sizeof m);
	memset(&o, 0, sizeof o);
	a.cqe = DEPTH;
	a.wc_flags = IBV_WC_STANDARD_FLAGS;
	m.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
	m.cqe_size = (uint16_t)size;
	MUST((q->cq = ibv_cq_ex_to_cq(mlx5dv_create_cq(context, &a, &m))));
	o.cq.in = q->cq;
	o.cq.out = &q->c;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ));
	SAME(q->c.cqe_size, size);
	q->polled = 0;
}

static void make(struct end *e, int size, int signal_all, uint64_t flags, int with_srq) {
	struct ibv_srq_init_attr s = {NULL, {DEPTH, 3, 0}};
	struct ibv_qp_init_attr_ex a;
	struct mlx5dv_qp_init_attr m;
	struct ibv_qp_attr init;
	memset(&a, 0, sizeof a);
	memset(&m, 0, sizeof m);
	memset(&init, 0, sizeof init);
	make_queue(&e->send, size);
	make_queue(&e->receive, size);
	e->srq = NULL;
	if (with_srq)
		MUST((e->srq = ibv_create_srq(pd, &s)));
	a.qp_type = IBV_QPT_RC;
	a.send_cq = e->send.cq;
	a.recv_cq = e->receive.cq;
	a.srq = e->srq;
	a.cap.max_send_wr = a.cap.max_recv_wr = DEPTH;
	a.cap.max_send_sge = a.cap.max_recv_sge = 3;
	a.sq_sig_all = signal_all;
	a.comp_mask = IBV_QP_INIT_ATTR_PD;
	a.pd = pd;
	m.comp_mask = flags ? MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS : 0;
	m.create_flags = (uint32_t)flags;
	MUST((e->qp = mlx5dv_create_qp(context, &a, &m)));
	init.qp_state = IBV_QPS_INIT;
	init.port_num = 1;
	init.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	DO(ibv_modify_qp(e->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void destroy(struct end *e) {
	DO(ibv_destroy_qp(e->qp));
	if (e->srq)
		DO(ibv_destroy_srq(e->srq));
	DO(ibv_destroy_cq(e->send.cq));
	DO(ibv_destroy_cq(e->receive.cq));
}

/* Returns the slot of the next CQE. The data in a CQE are at the start of its slot. */
static const uint8_t *slot(const struct queue *q) {
	return (const uint8_t *)q->c.buf + (size_t)(q->polled & (q->c.cqe_cnt - 1)) * q->c.cqe_size;
}

/* Waits for the next CQE, without polling it, and returns the format in its op_own. */
static int format(const struct queue *q) {
	const volatile uint8_t *op_own = slot(q) + q->c.cqe_size - 1;
	long i;
	for (i = 0; *op_own >> 4 == MLX5_CQE_INVALID || (*op_own & 1) != !!(q->polled & q->c.cqe_cnt); i++) {
		MUST(i < 20 * 1000 * 1000);
		sched_yield();
	}
	__sync_synchronize();
	return *op_own >> 2 & 3;
}

static void poll(struct queue *q, uint32_t n) {
	struct ibv_wc wc;
	wait_completion(q->cq, &wc);
	q->polled++;
	SAME(wc.status, IBV_WC_SUCCESS);
	if (n)
		SAME(wc.byte_len, n);
}

/* Runs one operation with n bytes from a to b. want is the format that its data come in. */
static void run(struct end *a, struct end *b, enum kind k, uint32_t n, int want) {
	struct ibv_sge s[3] = {{(uintptr_t)near, n, mr->lkey}, {0, 0, mr->lkey}, {0, 0, mr->lkey}};
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr r = {9, NULL, s, 3}, *bad_r;
	uint8_t *into = near;
	const uint8_t *from = far;
	struct queue *q;
	uint32_t first = n / 3, second = n - first;
	memset(&wr, 0, sizeof wr);
	memset(far, 0xee, SIZE);
	memset(near, 0xee, SIZE);
	pattern_fill(k < READ ? near : far, n + 1000 * k, 0, n);
	if (k < READ) { /* a receive of three pieces, of which the last is not needed */
		into = far;
		from = near;
		s[0].addr = (uintptr_t)far;
		s[0].length = first ? first : n;
		s[1].addr = (uintptr_t)far + s[0].length;
		s[1].length = second;
		s[2].addr = (uintptr_t)far + SIZE / 2;
		s[2].length = 64;
		if (b->srq)
			DO(ibv_post_srq_recv(b->srq, &r, &bad_r));
		else
			DO(ibv_post_recv(b->qp, &r, &bad_r));
	}
	s[0].addr = (uintptr_t)near;
	s[0].length = n;
	wr.sg_list = s;
	wr.num_sge = 1;
	wr.opcode = k == READ ? IBV_WR_RDMA_READ : k == FETCH_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD
	          : k == COMPARE_SWAP ? IBV_WR_ATOMIC_CMP_AND_SWP
	          : k == SEND_IMM ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (k == READ) {
		wr.wr.rdma.remote_addr = (uintptr_t)far;
		wr.wr.rdma.rkey = mr->rkey;
	} else if (k > READ) {
		wr.wr.atomic.remote_addr = (uintptr_t)far;
		wr.wr.atomic.rkey = mr->rkey;
	}
	DO(ibv_post_send(a->qp, &wr, &bad));
	q = k < READ ? &b->receive : &a->send;
	SAME(format(q), want);
	if (want != PLAIN) {
		SAME(into[0], 0xee); /* libmlx5 writes to memory when it polls */
		if (k <= READ)
			MUST(!memcmp(slot(q), from, n));
		else
			pattern_check(slot(q), n + 1000 * k, 0, 8, "the old value in the CQE");
	}
	if (k < READ) {
		SAME(format(&a->send), PLAIN);
		poll(&b->receive, n);
	}
	poll(&a->send, k < READ ? 0 : n);
	if (k >= READ && want == INLINE_64)
		return; /* libmlx5 read them from a wrong address until 2026 ("Fix inline-scatter source address") */
	if (k <= READ)
		MUST(!memcmp(into, from, n));
	else
		pattern_check(near, n + 1000 * k, 0, 8, "the old value");
	SAME(into[n], 0xee);
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		int signal_all;
		uint64_t flags;
		int sends, results; /* whether messages and results come in CQEs */
	} configs[] = {
		{"as usual", 0, 0, 1, 0},
		{"everything signaled", 1, 0, 1, 1},
		{"allowed", 0, MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE, 1, 1},
		{"disabled", 1, MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, 0, 0},
	};
	static const uint32_t sizes[] = {1, 2, 3, 8, 16, 31, 32, 33, 63, 64, 65, 300};
	struct end a, b;
	size_t i, c;
	uint32_t n;
	int size, k, in_cqe;
	context = open_device(argc > 1 ? argv[1] : NULL);
	MUST((pd = ibv_alloc_pd(context)));
	MUST((mr = ibv_reg_mr(pd, memory, sizeof memory,
	                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
	                      IBV_ACCESS_REMOTE_ATOMIC)));
	for (c = 0; c < sizeof configs / sizeof *configs; c++)
		for (size = 64; size <= 128; size *= 2)
			for (k = 0; k < KINDS; k++) {
				make(&a, size, configs[c].signal_all, configs[c].flags, 0);
				make(&b, size, configs[c].signal_all, configs[c].flags, k == SEND_SRQ);
				connect_with(a.qp, b.qp);
				connect_with(b.qp, a.qp);
				for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
					n = k > READ ? 8 : sizes[i];
					snprintf(doing, sizeof doing, "%s, entries of %d bytes, %s of %u bytes", configs[c].name,
					         size, names[k], n);
					in_cqe = n <= (uint32_t)size / 2 && (k < READ ? configs[c].sends : configs[c].results);
					run(&a, &b, (enum kind)k, n, !in_cqe ? PLAIN : size == 128 ? INLINE_64 : INLINE_32);
				}
				destroy(&a);
				destroy(&b);
			}
	strcpy(doing, "end");
	DO(ibv_dereg_mr(mr));
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("inline: %zu kinds of queue pairs, 2 sizes of entries, %d operations, %zu lengths: ok\n",
	       sizeof configs / sizeof *configs, KINDS, sizeof sizes / sizeof *sizes);
	return 0;
}
