/* Events that only rules of faults cause: of the subnet manager, and of rings that cannot be read. The test
 * that runs the program sets the rule each time that the program prints a line; then the program does what
 * the rule is about, and waits for the events. */
#include "check.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;

static struct ibv_qp *make(void) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {8, 8, 1, 1, 16}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	struct ibv_qp *qp;
	init.send_cq = init.recv_cq = cq;
	init.srq = srq;
	MUST((qp = ibv_create_qp(pd, &init)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

/* Sends to qp's peer a message of 8 bytes. */
static void post(struct ibv_qp *qp) {
	uint64_t bytes = 1;
	struct ibv_sge piece = {(uintptr_t)&bytes, 8, 0};
	struct ibv_send_wr wr = {0}, *bad;
	wr.opcode = IBV_WR_SEND;
	wr.sg_list = &piece;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	DO(ibv_post_send(qp, &wr, &bad));
}

/* Asks the test for something. It has been done when the test has answered. */
static void ask(const char *what) {
	puts(what);
	fflush(stdout);
	MUST(getchar() == '\n');
}

static struct ibv_async_event take(enum ibv_event_type type) {
	struct ibv_async_event e;
	DO(ibv_get_async_event(context, &e));
	SAME(e.event_type, type);
	ibv_ack_async_event(&e);
	return e;
}

static enum ibv_qp_state state(struct ibv_qp *qp) {
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	DO(ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
	return a.qp_state;
}

/* Makes two queue pairs that are connected. */
static void pair(struct ibv_qp *ends[2]) {
	ends[0] = make();
	ends[1] = make();
	connect_with(ends[0], ends[1]);
	connect_with(ends[1], ends[0]);
}

static void subnet(const char *what, enum ibv_event_type type) {
	ask(what);
	SAME(take(type).element.port_num, 1);
}

int main(void) {
	struct ibv_srq_init_attr limits = {NULL, {8, 1, 0}};
	struct ibv_qp *ends[2];
	struct ibv_wc wc;
	int i;

	context = open_device("nicless0");
	MUST((pd = ibv_alloc_pd(context)));
	MUST((cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
	subnet("lid-change", IBV_EVENT_LID_CHANGE);
	subnet("pkey-change", IBV_EVENT_PKEY_CHANGE);
	subnet("sm-change", IBV_EVENT_SM_CHANGE);
	subnet("reregister", IBV_EVENT_CLIENT_REREGISTER);

	/* The ring of a send queue. */
	pair(ends);
	ask("send");
	post(ends[0]);
	MUST(take(IBV_EVENT_QP_FATAL).element.qp == ends[0]);
	wait_completion(cq, &wc);
	SAME(wc.status, IBV_WC_WR_FLUSH_ERR);
	SAME(state(ends[0]), IBV_QPS_ERR);
	SAME(state(ends[1]), IBV_QPS_RTS);
	for (i = 0; i < 2; i++)
		DO(ibv_destroy_qp(ends[i]));

	/* The ring of an SRQ, from which both ends take receives. */
	MUST((srq = ibv_create_srq(pd, &limits)));
	pair(ends);
	ask("receive");
	post(ends[0]);
	MUST(take(IBV_EVENT_SRQ_ERR).element.srq == srq);
	for (i = 0; i < 2; i++) {
		struct ibv_qp *qp = take(IBV_EVENT_QP_LAST_WQE_REACHED).element.qp;
		MUST(qp == ends[0] || qp == ends[1]);
		SAME(state(ends[i]), IBV_QPS_ERR);
	}
	wait_completion(cq, &wc);
	SAME(wc.status, IBV_WC_WR_FLUSH_ERR);
	for (i = 0; i < 2; i++)
		DO(ibv_destroy_qp(ends[i]));
	DO(ibv_destroy_srq(srq));
	DO(ibv_close_device(context));
	puts("events: 6 kinds: ok");
	return 0;
}
