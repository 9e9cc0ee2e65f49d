/* Events and states of the port. The test that runs the program takes the port down and up, or changes its
 * GID, each time that the program prints a line; then the program waits for the event. */
#include "check.h"

struct ends {
	struct ibv_qp *from, *to;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[4096];

static struct ibv_qp *make(void) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {8, 8, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	struct ibv_qp *qp;
	init.send_cq = init.recv_cq = cq;
	MUST((qp = ibv_create_qp(pd, &init)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

/* timeout 8 is 1 ms, and 21 is 8.6 s: with retry_cnt 7 more than a minute. */
static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer, uint8_t timeout, uint8_t retry) {
	struct ibv_qp_attr a = {0};
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer->qp_num;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	DO(ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid));
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = timeout;
	a.retry_cnt = retry;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ends connected(uint8_t timeout, uint8_t retry) {
	struct ends e;
	e.from = make();
	e.to = make();
	connect_to(e.from, e.to, timeout, retry);
	connect_to(e.to, e.from, timeout, retry);
	return e;
}

static void post(struct ibv_qp *qp) {
	struct ibv_sge piece = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr wr = {0}, *bad;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.sg_list = &piece;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)memory + 2048;
	wr.wr.rdma.rkey = mr->rkey;
	DO(ibv_post_send(qp, &wr, &bad));
}

static void ends_with(enum ibv_wc_status status) {
	struct ibv_wc wc;
	wait_completion(cq, &wc);
	SAME(wc.status, status);
}

/* Asks the test for something, and waits for its event. */
static void awaits(const char *what, enum ibv_event_type type) {
	struct ibv_async_event e;
	puts(what);
	fflush(stdout);
	DO(ibv_get_async_event(context, &e));
	SAME(e.event_type, type);
	SAME(e.element.port_num, 1);
	ibv_ack_async_event(&e);
}

/* The port's state by ibv_query_port, and as tools read it below /sys. */
static void state(enum ibv_port_state want, int physical, const char *text) {
	char name[128], said[32] = "";
	struct ibv_port_attr port;
	FILE *f;
	DO(ibv_query_port(context, 1, &port));
	SAME(port.state, want);
	SAME(port.phys_state, physical);
	snprintf(name, sizeof name, "/sys/class/infiniband/%s/ports/1/state", ibv_get_device_name(context->device));
	MUST((f = fopen(name, "r")));
	MUST(fgets(said, sizeof said, f));
	fclose(f);
	if (strncmp(said, text, strlen(text)))
		FAIL("%s has %s, not %s", name, said, text);
}

int main(void) {
	struct ends patient, hasty;
	union ibv_gid before, after;
	struct ibv_wc wc;
	int i;

	context = open_device("nicless0");
	MUST((pd = ibv_alloc_pd(context)));
	MUST((cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
	MUST((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	state(IBV_PORT_ACTIVE, 5, "4: ACTIVE");

	/* A short outage: the request waits. */
	patient = connected(21, 7);
	memory[0] = 1;
	awaits("down", IBV_EVENT_PORT_ERR);
	state(IBV_PORT_DOWN, 3, "1: DOWN");
	post(patient.from);
	for (i = 0; i < 100000; i++)
		MUST(ibv_poll_cq(cq, 1, &wc) == 0);
	SAME(memory[2048], 0);
	awaits("up", IBV_EVENT_PORT_ACTIVE);
	state(IBV_PORT_ACTIVE, 5, "4: ACTIVE");
	ends_with(IBV_WC_SUCCESS);
	SAME(memory[2048], 1);

	/* A long one: the retries run out. */
	hasty = connected(8, 1);
	awaits("down", IBV_EVENT_PORT_ERR);
	post(hasty.from);
	ends_with(IBV_WC_RETRY_EXC_ERR);
	awaits("up", IBV_EVENT_PORT_ACTIVE);
	post(patient.from);
	ends_with(IBV_WC_SUCCESS);

	/* Another GID: who is connected reaches nobody, and can be connected anew. */
	hasty = connected(8, 1);
	post(hasty.from);
	ends_with(IBV_WC_SUCCESS);
	DO(ibv_query_gid(context, 1, 0, &before));
	awaits("gid", IBV_EVENT_GID_CHANGE);
	DO(ibv_query_gid(context, 1, 0, &after));
	MUST(memcmp(&before, &after, sizeof before));
	post(hasty.from);
	ends_with(IBV_WC_RETRY_EXC_ERR);
	hasty = connected(8, 1);
	post(hasty.from);
	ends_with(IBV_WC_SUCCESS);
	DO(ibv_close_device(context));
	puts("port: 2 outages, 1 change of the GID: ok");
	return 0;
}
