/* Makes one mistake that a NIC does not notice: "mistakes race". "mistakes correct" does the same things as
 * they ought to be done.
 *
 * Nothing depends on luck. A SEND to a queue pair without a receive waits, and all that was posted with it:
 * these are in flight until give() posts the receive. passes() returns when the device has found whatever
 * was posted before, because it visits queue pairs in turns. */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(is)                                                                     \
	do {                                                                        \
		if (!(is)) {                                                        \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #is);    \
			exit(1);                                                    \
		}                                                                   \
	} while (0)

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
enum { AREA = 4096, SENT = 64, OTHER = 128, BROUGHT = 192, TICK = 256, INBOX = 1024 }; /* offsets in an area */

struct memory {
	char *at;
	struct ibv_mr *mr;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static struct memory near, far;

/* Two connections, and one that makes no mistakes: a[0] to a[1], b[0] to b[1], tick[0] to tick[1]. */
static struct ibv_qp *a[2], *b[2], *tick[2];

static struct memory allocate(void) {
	struct memory m = {.at = aligned_alloc(AREA, AREA)};
	TRY(m.at);
	memset(m.at, 1, AREA);
	TRY((m.mr = ibv_reg_mr(pd, m.at, AREA, ALL)));
	return m;
}

static void release(struct memory *m) {
	TRY(ibv_dereg_mr(m->mr) == 0);
	free(m->at);
}

static void connect_to(struct ibv_qp *qp, uint32_t peer) {
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
	TRY(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .grh = {.dgid = gid, .hop_limit = 1}, .port_num = 1}};
	TRY(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 1}; /* rnr_retry 7: for ever */
	TRY(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void make_pair(struct ibv_qp *pair[2], struct ibv_cq *completions) {
	struct ibv_qp_init_attr attr = {.send_cq = completions, .recv_cq = completions, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
	TRY((pair[0] = ibv_create_qp(pd, &attr)) && (pair[1] = ibv_create_qp(pd, &attr)));
	connect_to(pair[0], pair[1]->qp_num);
	connect_to(pair[1], pair[0]->qp_num);
}

static void destroy_pair(struct ibv_qp *pair[2]) {
	TRY(ibv_destroy_qp(pair[0]) == 0 && ibv_destroy_qp(pair[1]) == 0);
}

/* Posts an operation of 64 bytes between near and far, or of a message. */
static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, size_t here, size_t there) {
	struct ibv_sge sge = {(uintptr_t)near.at + here, 64, near.mr->lkey};
	struct ibv_send_wr *bad, wr = {.opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)far.at + there, far.mr->rkey}};
	TRY(ibv_post_send(qp, &wr, &bad) == 0);
}

/* Posts a SEND of near.at[SENT], and with it an operation that waits for the SEND. */
static void post_behind(struct ibv_qp *qp, enum ibv_wr_opcode opcode, size_t here, size_t there) {
	struct ibv_sge sge[2] = {{(uintptr_t)near.at + SENT, 64, near.mr->lkey},
		{(uintptr_t)near.at + here, 64, near.mr->lkey}};
	struct ibv_send_wr *bad, wr[2] = {
		{.opcode = IBV_WR_SEND, .sg_list = &sge[0], .num_sge = 1, .send_flags = IBV_SEND_SIGNALED, .next = &wr[1]},
		{.opcode = opcode, .sg_list = &sge[1], .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)far.at + there, far.mr->rkey}}};
	TRY(ibv_post_send(qp, wr, &bad) == 0);
}

/* Posts a receive into far.at[where]. */
static void give(struct ibv_qp *qp, size_t where) {
	struct ibv_sge sge = {(uintptr_t)far.at + where, 64, far.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
	TRY(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* Polls n completions, and returns the status of the last that is not a success. */
static enum ibv_wc_status take_from(struct ibv_cq *from, int n) {
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	while (n > 0) {
		struct ibv_wc wc;
		int k = ibv_poll_cq(from, 1, &wc);
		TRY(k >= 0);
		if (k > 0 && wc.status != IBV_WC_SUCCESS)
			status = wc.status;
		n -= k;
	}
	return status;
}

static void take(int n) {
	TRY(take_from(cq, n) == IBV_WC_SUCCESS);
}

/* Waits until the device has found all that was posted before: it was in all queue pairs since. */
static void passes(void) {
	for (int i = 0; i < 3; i++) {
		post(tick[0], IBV_WR_RDMA_WRITE, TICK, TICK);
		take(1);
	}
}

static void send_buffer_changed(int wrong) {
	post(a[0], IBV_WR_SEND, SENT, 0);
	passes();
	if (wrong)
		near.at[SENT + 5] = 9;
	give(a[1], INBOX);
	take(2);
	near.at[SENT + 5] = 8;
}

static void receive_buffer_changed(int wrong) {
	give(a[1], INBOX);
	post(a[0], IBV_WR_RDMA_WRITE, OTHER, OTHER); /* its visit finds the receive too */
	take(1);
	if (wrong)
		far.at[INBOX + 3] = 4;
	post(a[0], IBV_WR_SEND, SENT, 0);
	take(2);
	far.at[INBOX + 3] = 5;
}

/* Writes to the slot of the WQE of a queue pair that has none before: the address of its bytes. */
static void wqe_rewritten(int wrong) {
	struct mlx5dv_qp qp = {0};
	struct mlx5dv_obj object = {.qp = {.in = a[0], .out = &qp}};
	struct mlx5_wqe_data_seg *data;
	TRY(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP) == 0);
	post(a[0], IBV_WR_SEND, SENT, 0);
	passes();
	data = (void *)((char *)qp.sq.buf + sizeof(struct mlx5_wqe_ctrl_seg));
	if (wrong) {
		TRY(data->addr == htobe64((uintptr_t)near.at + SENT));
		data->addr = htobe64((uintptr_t)near.at + OTHER);
	}
	give(a[1], INBOX);
	take(2);
}

static void key_gone(int wrong) {
	struct memory before = near;
	near = allocate();
	post(a[0], IBV_WR_SEND, SENT, 0);
	passes();
	if (wrong)
		TRY(ibv_dereg_mr(near.mr) == 0);
	give(a[1], INBOX);
	if (wrong) {
		TRY(take_from(cq, 1) == IBV_WC_LOC_PROT_ERR);
		free(near.at);
	} else {
		take(2);
		release(&near);
	}
	near = before;
}

/* Makes a pair of queue pairs with a queue for the completion of a WRITE, which is there when it returns. */
static struct ibv_cq *written(struct ibv_qp **pair) {
	struct ibv_cq *own = ibv_create_cq(context, 4, NULL, NULL, 0);
	TRY(own);
	make_pair(pair, own);
	far.at[OTHER] = 0;
	near.at[OTHER] = 77;
	post(pair[0], IBV_WR_RDMA_WRITE, OTHER, OTHER);
	while (*(volatile char *)(far.at + OTHER) != 77)
		; /* it has arrived */
	passes();
	return own;
}

static void never_polled(int wrong) {
	struct ibv_qp *pair[2];
	struct ibv_cq *own = written(pair);
	if (wrong)
		exit(0);
	TRY(take_from(own, 1) == IBV_WC_SUCCESS);
	destroy_pair(pair);
	TRY(ibv_destroy_cq(own) == 0);
}

static void never_polled_destroyed(int wrong) {
	struct ibv_qp *pair[2];
	struct ibv_cq *own = written(pair);
	if (!wrong)
		TRY(take_from(own, 1) == IBV_WC_SUCCESS);
	destroy_pair(pair);
	TRY(ibv_destroy_cq(own) == 0);
}

static void destroyed_in_flight(int wrong) {
	struct ibv_qp *pair[2];
	make_pair(pair, cq);
	post(pair[0], IBV_WR_SEND, SENT, 0);
	passes();
	if (!wrong) {
		give(pair[1], INBOX);
		take(2);
	}
	destroy_pair(pair);
	passes(); /* the program goes on */
}

/* Two queue pairs access the same memory: one after the other, or both at once. */
static void race_with(enum ibv_wr_opcode opcode, int wrong) {
	post_behind(a[0], IBV_WR_RDMA_WRITE, OTHER, OTHER);
	if (!wrong) {
		give(a[1], INBOX);
		take(3);
	}
	post_behind(b[0], opcode, BROUGHT, OTHER + 32);
	passes();
	if (wrong)
		give(a[1], INBOX);
	give(b[1], INBOX + 64);
	take(wrong ? 6 : 3);
}

static void race(int wrong) {
	race_with(IBV_WR_RDMA_WRITE, wrong);
}

static void race_read(int wrong) {
	race_with(IBV_WR_RDMA_READ, wrong);
}

static const struct {
	const char *name;
	void (*make)(int wrong);
} mistakes[] = {
	{"wqe-rewritten", wqe_rewritten}, /* the first, because it is about the first slot */
	{"send-buffer-changed", send_buffer_changed},
	{"receive-buffer-changed", receive_buffer_changed},
	{"key-gone", key_gone},
	{"never-polled", never_polled},
	{"never-polled-destroyed", never_polled_destroyed},
	{"destroyed-in-flight", destroyed_in_flight},
	{"race", race},
	{"race-read", race_read},
};

int main(int argc, char **argv) {
	struct ibv_device **list = ibv_get_device_list(NULL);
	const char *which = argc > 1 ? argv[1] : "correct";
	int done = 0;
	TRY(list && list[0] && (context = ibv_open_device(list[0])) && (pd = ibv_alloc_pd(context)));
	TRY((cq = ibv_create_cq(context, 64, NULL, NULL, 0)) && ibv_query_gid(context, 1, 0, &gid) == 0);
	near = allocate();
	far = allocate();
	make_pair(a, cq);
	make_pair(b, cq);
	make_pair(tick, cq);
	for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
		int wrong = strcmp(which, mistakes[i].name) == 0;
		if (wrong || strcmp(which, "correct") == 0) {
			mistakes[i].make(wrong);
			done++;
		}
	}
	TRY(done > 0); /* otherwise the argument is not known */
	destroy_pair(a);
	destroy_pair(b);
	destroy_pair(tick);
	release(&near);
	release(&far);
	TRY(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	ibv_free_device_list(list);
	return 0;
}
