/* dc: one queue pair of a process (DCI) sends to queue pairs of two other processes (DCT), by
 * mlx5's dynamically connected transport: messages, writes, reads and atomics. Then it makes
 * mistakes: each fails, and the DCT goes on.
 *
 *   dc [DEVICE] */
#include "check.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

enum { SIZE = 8192, DEPTH = 16, TARGETS = 2, KEY = 0x11223344, MESSAGE = 1000 };

/* The message of a process that receives to the other: all that an address needs. */
struct target {
	uint64_t addr;
	uint32_t rkey, number;
	union ibv_gid gid;
	uint16_t lid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct ibv_port_attr port;
static uint8_t *memory;

static void open_all(const char *device) {
	struct ibv_srq_init_attr s = {NULL, {DEPTH, 1, 0}};
	context = open_device(device);
	DO(ibv_query_port(context, 1, &port));
	MUST((pd = ibv_alloc_pd(context)));
	MUST((cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0)));
	MUST((srq = ibv_create_srq(pd, &s)));
	DO(posix_memalign((void **)&memory, 4096, SIZE));
	memset(memory, 0xee, SIZE);
	MUST((mr = ibv_reg_mr(pd, memory, SIZE,
	                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                      IBV_ACCESS_REMOTE_ATOMIC)));
}

static struct ibv_ah_attr address(const union ibv_gid *gid, uint16_t lid) {
	struct ibv_ah_attr a;
	memset(&a, 0, sizeof a);
	a.is_global = 1;
	a.port_num = 1;
	a.dlid = lid;
	a.grh.dgid = *gid;
	a.grh.hop_limit = 1;
	return a;
}

static struct ibv_qp *make(enum mlx5dv_dc_type type) {
	struct ibv_qp_init_attr_ex a;
	struct mlx5dv_qp_init_attr m;
	struct ibv_qp *qp;
	memset(&a, 0, sizeof a);
	memset(&m, 0, sizeof m);
	a.qp_type = IBV_QPT_DRIVER;
	a.send_cq = a.recv_cq = cq;
	a.comp_mask = IBV_QP_INIT_ATTR_PD;
	a.pd = pd;
	a.sq_sig_all = 1;
	m.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
	m.dc_init_attr.dc_type = type;
	if (type == MLX5DV_DCTYPE_DCT) {
		a.srq = srq;
		m.dc_init_attr.dct_access_key = KEY;
	} else {
		a.cap.max_send_wr = DEPTH;
		a.cap.max_send_sge = 1;
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
		                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	}
	MUST((qp = mlx5dv_create_qp(context, &a, &m)));
	return qp;
}

static void bring_up(struct ibv_qp *qp, int receives) {
	struct ibv_qp_attr a;
	union ibv_gid gid;
	memset(&a, 0, sizeof a);
	DO(ibv_query_gid(context, 1, 0, &gid));
	a.port_num = 1;
	a.path_mtu = port.active_mtu;
	a.min_rnr_timer = 1;
	a.ah_attr = address(&gid, port.lid);
	a.timeout = 8; /* a millisecond: mistakes are to fail soon */
	a.retry_cnt = 2;
	a.rnr_retry = 7;
	a.max_rd_atomic = 16; /* 2^log_max_ra_req_dc */
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	a.qp_state = IBV_QPS_INIT;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	                 (receives ? IBV_QP_ACCESS_FLAGS : 0)));
	a.qp_state = IBV_QPS_RTR;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PATH_MTU |
	                 (receives ? IBV_QP_AV | IBV_QP_MIN_RNR_TIMER : 0)));
	if (receives)
		return;
	a.qp_state = IBV_QPS_RTS;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* A process that receives: it sends its address, takes one message, and waits for the end. */
static int receive(const char *device, int talk) {
	struct ibv_sge s;
	struct ibv_recv_wr r = {7, NULL, &s, 1}, *bad;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;
	struct target t;
	struct ibv_wc wc;
	char byte;
	open_all(device);
	qp = make(MLX5DV_DCTYPE_DCT);
	SAME(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), EINVAL); /* there is nothing before RTR */
	bring_up(qp, 1);
	DO(ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, &init));
	SAME(a.qp_state, IBV_QPS_RTR);
	MUST(qp->qp_num);
	SAME(ibv_destroy_srq(srq), EBUSY);
	s.addr = (uintptr_t)memory + SIZE / 2;
	s.length = MESSAGE;
	s.lkey = mr->lkey;
	DO(ibv_post_srq_recv(srq, &r, &bad));
	memset(&t, 0, sizeof t);
	t.addr = (uintptr_t)memory;
	t.rkey = mr->rkey;
	t.number = qp->qp_num;
	t.lid = port.lid;
	DO(ibv_query_gid(context, 1, 0, &t.gid));
	MUST(write(talk, &t, sizeof t) == sizeof t);
	wait_completion(cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	SAME(wc.byte_len, MESSAGE);
	SAME(wc.wr_id, 7);
	SAME(wc.qp_num, qp->qp_num);
	pattern_check(memory + SIZE / 2, t.rkey, 0, MESSAGE, "message");
	MUST(read(talk, &byte, 1) == 1); /* the other has made its mistakes */
	pattern_check(memory + 64, t.rkey + 1, 0, 2000, "written");
	SAME(*(uint64_t *)memory, 5);
	DO(ibv_destroy_qp(qp));
	MUST(write(talk, &byte, 1) == 1);
	MUST(read(talk, &byte, 1) == 1);
	return 0;
}

/* The sender, with one DCI. */
static struct ibv_qp *dci;

static enum ibv_wc_status finish(void) {
	struct ibv_wc wc;
	DO(ibv_wr_complete(ibv_qp_to_qp_ex(dci)));
	wait_completion(cq, &wc);
	return wc.status;
}

enum operation { SEND, WRITE, READ, ADD };

/* Runs one operation with n bytes at an offset of memory. */
static enum ibv_wc_status run(enum operation o, const struct target *t, struct ibv_ah *ah, uint64_t key,
                              size_t at, uint32_t n) {
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(dci);
	ibv_wr_start(q);
	switch (o) {
	case SEND:
		ibv_wr_send(q);
		break;
	case WRITE:
		ibv_wr_rdma_write(q, t->rkey, t->addr + at);
		break;
	case READ:
		ibv_wr_rdma_read(q, t->rkey, t->addr + at);
		break;
	case ADD:
		ibv_wr_atomic_fetch_add(q, t->rkey, t->addr + at, 5);
		break;
	}
	mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(q), ah, t->number, key);
	ibv_wr_set_sge(q, mr->lkey, (uintptr_t)memory + at, n);
	return finish();
}

static void restart(void) {
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RESET;
	DO(ibv_modify_qp(dci, &a, IBV_QP_STATE));
	bring_up(dci, 0);
}

int main(int argc, char **argv) {
	const char *device = argc > 1 ? argv[1] : NULL;
	struct target t[TARGETS], wrong;
	struct ibv_ah *ah[TARGETS];
	pid_t children[TARGETS];
	int talk[TARGETS][2], i, status;
	char byte = 0;
	for (i = 0; i < TARGETS; i++) {
		DO(socketpair(AF_UNIX, SOCK_STREAM, 0, talk[i]));
		if (!(children[i] = fork()))
			return receive(device, talk[i][1]);
		close(talk[i][1]);
	}
	open_all(device);
	dci = make(MLX5DV_DCTYPE_DCI);
	bring_up(dci, 0);
	for (i = 0; i < TARGETS; i++) {
		struct ibv_ah_attr a;
		MUST(read(talk[i][0], &t[i], sizeof t[i]) == sizeof t[i]);
		a = address(&t[i].gid, t[i].lid);
		MUST((ah[i] = ibv_create_ah(pd, &a)));
	}
	for (i = 0; i < TARGETS; i++) { /* every operation, to one and then to the other */
		snprintf(doing, sizeof doing, "target %d", i);
		pattern_fill(memory + 4096, t[i].rkey, 0, MESSAGE);
		SAME(run(SEND, &t[i], ah[i], KEY, 4096, MESSAGE), IBV_WC_SUCCESS);
		pattern_fill(memory + 64, t[i].rkey + 1, 0, 2000);
		SAME(run(WRITE, &t[i], ah[i], KEY, 64, 2000), IBV_WC_SUCCESS);
		memset(memory + 64, 0, 2000);
		SAME(run(READ, &t[i], ah[i], KEY, 64, 2000), IBV_WC_SUCCESS);
		pattern_check(memory + 64, t[i].rkey + 1, 0, 2000, "read back");
		memset(memory, 0, 8);
		SAME(run(WRITE, &t[i], ah[i], KEY, 0, 8), IBV_WC_SUCCESS);
		SAME(run(ADD, &t[i], ah[i], KEY, 0, 8), IBV_WC_SUCCESS);
		SAME(*(uint64_t *)memory, 0);
	}
	memset(memory, 0xcc, SIZE); /* what no mistake may write */
	strcpy(doing, "another key");
	SAME(run(WRITE, &t[0], ah[0], KEY + 1, 64, 8), IBV_WC_RETRY_EXC_ERR);
	restart();
	strcpy(doing, "another number");
	wrong = t[0];
	wrong.number ^= 1;
	SAME(run(WRITE, &wrong, ah[0], KEY, 64, 8), IBV_WC_RETRY_EXC_ERR);
	restart();
	strcpy(doing, "another rkey");
	wrong = t[0];
	wrong.rkey ^= 0x100;
	SAME(run(WRITE, &wrong, ah[0], KEY, 64, 8), IBV_WC_REM_ACCESS_ERR);
	restart();
	strcpy(doing, "the memory of another target");
	wrong = t[1];
	wrong.number = t[0].number;
	SAME(run(READ, &wrong, ah[0], KEY, 64, 8), IBV_WC_REM_ACCESS_ERR);
	restart();
	strcpy(doing, "a target that has ended");
	MUST(write(talk[0][0], &byte, 1) == 1);
	MUST(read(talk[0][0], &byte, 1) == 1);
	SAME(run(WRITE, &t[0], ah[0], KEY, 64, 8), IBV_WC_RETRY_EXC_ERR);
	restart();
	strcpy(doing, "the other target");
	SAME(run(READ, &t[1], ah[1], KEY, 64, 2000), IBV_WC_SUCCESS);
	pattern_check(memory + 64, t[1].rkey + 1, 0, 2000, "read back");
	MUST(write(talk[1][0], &byte, 1) == 1);
	MUST(read(talk[1][0], &byte, 1) == 1);
	for (i = 0; i < TARGETS; i++) {
		MUST(write(talk[i][0], &byte, 1) == 1);
		MUST(waitpid(children[i], &status, 0) == children[i]);
		SAME(status, 0);
	}
	DO(ibv_destroy_qp(dci));
	printf("dc: 2 targets, 4 operations, 5 mistakes: ok\n");
	return 0;
}
