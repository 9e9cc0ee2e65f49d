/* Memory that is not the program's: the null MR, and device memory: copying to and from it, transfers,
 * atomics and list keys on it, importing it, and what has to be refused. */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

enum { SIZE = 8192, ROUNDS = 1000 };

static const unsigned all_access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void open_side(struct side *s) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {16, 16, 1, 1, 0}, IBV_QPT_RC, 1};
	struct ibv_qp_attr a = {0};
	s->context = open_device(NULL);
	MUST((s->pd = ibv_alloc_pd(s->context)));
	MUST((s->cq = ibv_create_cq(s->context, 64, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = s->cq;
	MUST((s->qp = ibv_create_qp(s->pd, &init)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	DO(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void close_side(struct side *s) {
	DO(ibv_destroy_qp(s->qp));
	DO(ibv_destroy_cq(s->cq));
	DO(ibv_dealloc_pd(s->pd));
	DO(ibv_close_device(s->context));
}

static enum ibv_wc_status post(struct side *s, enum ibv_wr_opcode op, struct ibv_mr *local, uint64_t at,
                               uint32_t n, uint32_t rkey, uint64_t addr) {
	struct ibv_sge sge = {at, n, local->lkey};
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	memset(&wr, 0, sizeof wr);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = op;
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	}
	DO(ibv_post_send(s->qp, &wr, &bad));
	wait_completion(s->cq, &wc);
	return wc.status;
}

static struct ibv_dm *alloc(struct side *s, size_t n) {
	struct ibv_alloc_dm_attr attr = {n, 0, 0};
	return ibv_alloc_dm(s->context, &attr);
}

static void transfers(struct side *a, struct side *b) {
	static uint8_t bytes[SIZE];
	struct ibv_mr *mine, *theirs, *second;
	struct ibv_dm *dm, *other;
	uint64_t got;
	int i;
	strcpy(doing, "transfers");
	MUST((dm = alloc(a, SIZE)) && (other = alloc(b, SIZE)));
	MUST((mine = ibv_reg_dm_mr(a->pd, dm, 0, SIZE, all_access)));
	MUST((theirs = ibv_reg_dm_mr(b->pd, other, 0, SIZE, all_access)));
	/* From device memory to device memory, with offsets as addresses. */
	pattern_fill(bytes, 1, 0, SIZE);
	DO(ibv_memcpy_to_dm(dm, 0, bytes, SIZE));
	SAME(post(a, IBV_WR_RDMA_WRITE, mine, 100, 4000, theirs->rkey, 8), IBV_WC_SUCCESS);
	DO(ibv_memcpy_from_dm(bytes, other, 8, 4000));
	pattern_check(bytes, 1, 100, 4000, "written");
	SAME(post(a, IBV_WR_RDMA_READ, mine, 4096, 4096, theirs->rkey, 0), IBV_WC_SUCCESS);
	DO(ibv_memcpy_from_dm(bytes, dm, 4104, 4000));
	pattern_check(bytes, 1, 100, 4000, "read");
	/* Atomics, and a registration of a part of the memory. */
	MUST((second = ibv_reg_dm_mr(b->pd, other, 4096, 64, all_access)));
	memset(bytes, 0, SIZE);
	DO(ibv_memcpy_to_dm(other, 0, bytes, SIZE));
	for (i = 0; i < ROUNDS; i++)
		SAME(post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, mine, 0, 8, second->rkey, 16), IBV_WC_SUCCESS);
	DO(ibv_memcpy_from_dm(&got, other, 4096 + 16, 8));
	SAME(got, ROUNDS);
	DO(ibv_memcpy_from_dm(&got, dm, 0, 8));
	SAME(got, ROUNDS - 1);
	MUST(ibv_free_dm(other) == EBUSY);
	DO(ibv_dereg_mr(second));
	/* Behind its end. */
	SAME(post(a, IBV_WR_RDMA_WRITE, mine, 0, 8, theirs->rkey, SIZE - 4), IBV_WC_REM_ACCESS_ERR);
	DO(ibv_dereg_mr(mine));
	DO(ibv_dereg_mr(theirs));
	DO(ibv_free_dm(dm));
	DO(ibv_free_dm(other));
}

/* Two mappings of the same memory, one of them by a child. */
static void imports(struct side *a) {
	static uint8_t bytes[64];
	struct ibv_dm *dm, *again;
	struct ibv_context *other;
	int status;
	pid_t child;
	strcpy(doing, "imports");
	MUST((dm = alloc(a, SIZE)));
	MUST((other = ibv_import_device(dup(a->context->cmd_fd))));
	MUST((again = ibv_import_dm(other, dm->handle)));
	pattern_fill(bytes, 5, 0, sizeof bytes);
	DO(ibv_memcpy_to_dm(dm, 128, bytes, sizeof bytes));
	memset(bytes, 0, sizeof bytes);
	DO(ibv_memcpy_from_dm(bytes, again, 128, sizeof bytes));
	pattern_check(bytes, 5, 0, sizeof bytes, "imported");
	MUST(!ibv_import_dm(other, dm->handle + 1000));
	child = fork();
	MUST(child >= 0);
	if (child == 0) { /* it has the parent's mapping, and may make device memory of its own */
		struct ibv_dm *own;
		strcpy(doing, "the child");
		pattern_fill(bytes, 6, 0, sizeof bytes);
		DO(ibv_memcpy_to_dm(dm, 256, bytes, sizeof bytes));
		MUST((own = alloc(a, SIZE)));
		DO(ibv_memcpy_to_dm(own, 0, bytes, sizeof bytes));
		DO(ibv_free_dm(own));
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child);
	SAME(status, 0);
	DO(ibv_memcpy_from_dm(bytes, again, 256, sizeof bytes));
	pattern_check(bytes, 6, 0, sizeof bytes, "of the child");
	ibv_unimport_dm(again);
	DO(ibv_close_device(other));
	DO(ibv_free_dm(dm));
}

/* A null MR reads as zeros and keeps nothing, in every protection domain. */
static void null_mr(struct side *a, struct side *b) {
	static uint8_t bytes[SIZE];
	struct ibv_mr *null, *mr;
	strcpy(doing, "null MR");
	MUST((null = ibv_alloc_null_mr(a->pd)));
	MUST((mr = ibv_reg_mr(b->pd, bytes, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	                      IBV_ACCESS_REMOTE_READ)));
	pattern_fill(bytes, 9, 0, SIZE);
	SAME(post(a, IBV_WR_RDMA_READ, null, 0, SIZE, mr->rkey, (uintptr_t)bytes), IBV_WC_SUCCESS);
	pattern_check(bytes, 9, 0, SIZE, "after a read to nowhere");
	SAME(post(a, IBV_WR_RDMA_WRITE, null, 12345, 4000, mr->rkey, (uintptr_t)bytes), IBV_WC_SUCCESS);
	MUST(!bytes[0] && !memcmp(bytes, bytes + 1, 3999));
	pattern_check(bytes + 4000, 9, 4000, SIZE - 4000, "behind the zeros");
	DO(ibv_dereg_mr(mr));
	DO(ibv_dereg_mr(null));
}

static void mistakes(struct side *a) {
	struct ibv_device_attr_ex attr;
	struct mlx5dv_alloc_dm_attr steering = {MLX5DV_DM_TYPE_STEERING_SW_ICM, 0};
	struct ibv_alloc_dm_attr of = {4096, 0, 0};
	struct ibv_dm *dm, **many;
	struct ibv_mr *mr;
	int n;
	strcpy(doing, "mistakes");
	DO(ibv_query_device_ex(a->context, NULL, &attr));
	MUST(attr.max_dm_size >= SIZE);
	MUST(!alloc(a, attr.max_dm_size + 1) && errno == EINVAL);
	MUST(!alloc(a, 0));
	MUST(!mlx5dv_alloc_dm(a->context, &of, &steering));
	of.log_align_req = 40;
	MUST(!ibv_alloc_dm(a->context, &of));
	MUST((dm = alloc(a, 100)));
	MUST(!ibv_reg_dm_mr(a->pd, dm, 0, 104, all_access));
	MUST(!ibv_reg_dm_mr(a->pd, dm, 101, 0, all_access));
	MUST(!ibv_reg_dm_mr(a->pd, dm, UINT64_MAX, 2, all_access));
	MUST(!ibv_reg_dm_mr(a->pd, dm, 0, 100, all_access & ~(unsigned)IBV_ACCESS_ZERO_BASED));
	MUST(!mlx5dv_dm_map_op_addr(dm, 0) && errno == EOPNOTSUPP);
	MUST((mr = ibv_reg_dm_mr(a->pd, dm, 4, 0, all_access)));
	SAME(post(a, IBV_WR_RDMA_READ, mr, 0, 8, mr->rkey, 0), IBV_WC_REM_ACCESS_ERR);
	DO(ibv_dereg_mr(mr));
	DO(ibv_free_dm(dm));
	/* As many as a context may have, and again after they are freed. */
	MUST((many = calloc(1000, sizeof *many)));
	for (n = 0; n < 1000 && (many[n] = alloc(a, 4096)); n++)
		;
	MUST(n >= 16 && n < 1000);
	DO(ibv_free_dm(many[n / 2]));
	MUST((many[n / 2] = alloc(a, 4096)));
	while (n--)
		DO(ibv_free_dm(many[n]));
	free(many);
	alloc(a, 4096); /* goes with the context */
}

int main(void) {
	struct side a, b;
	open_side(&a);
	open_side(&b);
	connect_with(a.qp, b.qp);
	connect_with(b.qp, a.qp);
	imports(&a);
	null_mr(&a, &b);
	transfers(&a, &b);
	close_side(&a);
	close_side(&b);
	open_side(&a);
	connect_with(a.qp, a.qp);
	mistakes(&a);
	close_side(&a);
	printf("dm: transfers, imports, mistakes: ok\n");
	return 0;
}
