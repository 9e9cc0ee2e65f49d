/* mistake WHICH: makes one mistake, prints the errno, and ends with status 1. The explanations
 * that nicless gives are compared by verbs/programs.
 *
 * Some mistakes do not reach nicless, because libmlx5 refuses the call itself. */
#include "check.h"

#include <infiniband/mlx5dv.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* Returns a queue pair, or NULL and sets errno. */
static struct ibv_qp *queue_pair(enum ibv_qp_type type, uint32_t inlined) {
	struct ibv_qp_init_attr a = {NULL, cq, cq, NULL, {16, 16, 1, 1, inlined}, type, 0};
	return ibv_create_qp(pd, &a);
}

/* libmlx5 refuses: */

static int inline_data(void) { return queue_pair(IBV_QPT_RC, 1 << 20) != NULL; }

static int address_without_gid(void) {
	struct ibv_ah_attr a;
	MUST(queue_pair(IBV_QPT_UD, 0));
	memset(&a, 0, sizeof a);
	a.port_num = 1;
	a.dlid = 1;
	return ibv_create_ah(pd, &a) != NULL;
}

static int firmware(void) {
	struct mlx5dv_context_attr a = {MLX5DV_CONTEXT_FLAGS_DEVX, 0};
	struct ibv_device **list = ibv_get_device_list(NULL);
	MUST(list && list[0]);
	return mlx5dv_open_device(list[0], &a) != NULL;
}

static int wrong_state(void) {
	struct ibv_qp *qp = queue_pair(IBV_QPT_RC, 0);
	struct ibv_send_wr wr, *bad;
	MUST(qp);
	memset(&wr, 0, sizeof wr);
	wr.opcode = IBV_WR_SEND;
	errno = ibv_post_send(qp, &wr, &bad);
	return errno == 0;
}

/* nicless refuses: */

static int flow(void) {
	struct ibv_flow_attr a;
	struct ibv_qp *qp = queue_pair(IBV_QPT_UD, 0);
	MUST(qp);
	memset(&a, 0, sizeof a);
	a.type = IBV_FLOW_ATTR_NORMAL;
	a.size = sizeof a;
	a.port = 1;
	return ibv_create_flow(qp, &a) != NULL;
}

static int variable(void) { return mlx5dv_alloc_var(context, 0) != NULL; }

static int work_queue(void) {
	struct ibv_wq_init_attr a;
	memset(&a, 0, sizeof a);
	a.wq_type = IBV_WQT_RQ;
	a.max_wr = 16;
	a.max_sge = 1;
	a.pd = pd;
	a.cq = cq;
	return ibv_create_wq(context, &a) != NULL;
}

/* The device completes a work request with an error: */

/* Connects a new queue pair with itself. */
static struct ibv_qp *loop(void) {
	struct ibv_qp *qp = queue_pair(IBV_QPT_RC, 0);
	struct ibv_qp_attr a;
	union ibv_gid gid;
	MUST(qp);
	DO(ibv_query_gid(context, 1, 0, &gid));
	memset(&a, 0, sizeof a);
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	a.qp_state = IBV_QPS_INIT;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = qp->qp_num;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 1;
	a.ah_attr.is_global = 1;
	a.ah_attr.grh.dgid = gid;
	a.ah_attr.grh.hop_limit = 1;
	a.ah_attr.port_num = 1;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	return qp;
}

/* Writes to memory that the peer may only read, on n queue pairs one after another. */
static int writes(int n) {
	static uint8_t mem[4096];
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, sizeof mem, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	MUST(mr);
	while (n-- > 0) {
		struct ibv_sge s = {(uintptr_t)mem, 8, mr->lkey};
		struct ibv_send_wr wr, *bad;
		struct ibv_wc wc;
		struct ibv_qp *qp = loop();
		memset(&wr, 0, sizeof wr);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.sg_list = &s;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = (uintptr_t)mem;
		wr.wr.rdma.rkey = mr->rkey;
		DO(ibv_post_send(qp, &wr, &bad));
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			;
		if (wc.status == IBV_WC_SUCCESS)
			return 1;
		fprintf(stderr, "mistake: qp %06x: %s\n", qp->qp_num, ibv_wc_status_str(wc.status));
		DO(ibv_destroy_qp(qp));
	}
	return 0;
}

static int one_write(void) { return writes(1); }

static int many_writes(void) { return writes(100); }

/* Neither refuses anything. */
static int nothing(void) { return 0; }

static const struct {
	const char *name;
	int (*make)(void);
} mistakes[] = {{"inline", inline_data}, {"address", address_without_gid},
                {"firmware", firmware},  {"flow", flow},
                {"variable", variable},  {"work-queue", work_queue},
                {"state", wrong_state},  {"nothing", nothing},
                {"write", one_write},    {"writes", many_writes}};

int main(int argc, char **argv) {
	size_t i;
	context = open_device(NULL);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	MUST(pd && cq);
	for (i = 0; argc > 1 && i < sizeof mistakes / sizeof *mistakes; i++)
		if (!strcmp(argv[1], mistakes[i].name)) {
			errno = 0;
			if (mistakes[i].make())
				FAIL("%s was not refused", argv[1]);
			printf("mistake: %s: %s\n", argv[1], strerror(errno));
			return argc == 2; /* with another argument: as if all were well */
		}
	fprintf(stderr, "usage: mistake WHICH [forgive]\n");
	return 2;
}
