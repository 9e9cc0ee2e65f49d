/* Requests that must fail: their status, and the status of the requests after them. */
#include "steps.h"

enum { SIZE = 4096 };

/* A request of the active end, and its outcome. */
struct error {
	const char *name;
	enum ibv_wr_opcode opcode;
	int64_t past;          /* added to the remote address */
	uint32_t wrong_rkey;   /* XORed into the remote key */
	uint32_t wrong_lkey;   /* XORed into the local key */
	uint32_t length;
	int mr_access;         /* access rights of the passive end's memory, in addition to local write */
	int qp_access;         /* access rights of the queue pairs; 0: all */
	uint32_t receive;      /* bytes of the receive that the passive end posts; 0: none */
	uint8_t rnr_retry;
	enum ibv_wc_status status;  /* status of the request */
	enum ibv_wc_status receives; /* status of the receive, if one was posted */
};

#define W IBV_ACCESS_REMOTE_WRITE
#define R IBV_ACCESS_REMOTE_READ
#define A IBV_ACCESS_REMOTE_ATOMIC
#define FLUSH IBV_WC_WR_FLUSH_ERR
#define REMOTE IBV_WC_REM_ACCESS_ERR

static const struct error cases[] = {
	{"write with a wrong rkey", IBV_WR_RDMA_WRITE, 0, 0x100, 0, 8, W, 0, 0, 7, REMOTE, FLUSH},
	{"write with the key of another variant", IBV_WR_RDMA_WRITE, 0, 1, 0, 8, W, 0, 0, 7, REMOTE, FLUSH},
	{"read with a wrong rkey", IBV_WR_RDMA_READ, 0, 0x100, 0, 8, R, 0, 0, 7, REMOTE, FLUSH},
	{"write over the end", IBV_WR_RDMA_WRITE, SIZE - 7, 0, 0, 8, W, 0, 0, 7, REMOTE, FLUSH},
	{"write before the beginning", IBV_WR_RDMA_WRITE, -1, 0, 0, 8, W, 0, 0, 7, REMOTE, FLUSH},
	{"read over the end", IBV_WR_RDMA_READ, 1, 0, 0, SIZE, R, 0, 0, 7, REMOTE, FLUSH},
	{"write where the memory may be read", IBV_WR_RDMA_WRITE, 0, 0, 0, 8, R, 0, 0, 7, REMOTE, FLUSH},
	{"read where the memory may be written", IBV_WR_RDMA_READ, 0, 0, 0, 8, W, 0, 0, 7, REMOTE, FLUSH},
	{"atomic where it may be written", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 0, 8, W | R, 0, 0, 7, REMOTE,
		FLUSH},
	{"atomic at an odd address", IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0, 0, 8, A, 0, 0, 7, IBV_WC_REM_INV_REQ_ERR,
		FLUSH},
	{"write to a queue pair that allows reads", IBV_WR_RDMA_WRITE, 0, 0, 0, 8, W, R, 0, 7,
		IBV_WC_REM_INV_REQ_ERR, FLUSH},
	{"write from a wrong lkey", IBV_WR_RDMA_WRITE, 0, 0, 0x100, 8, W, 0, 0, 7, IBV_WC_LOC_PROT_ERR, FLUSH},
	{"send from a wrong lkey", IBV_WR_SEND, 0, 0, 0x100, 8, W, 0, 64, 7, IBV_WC_LOC_PROT_ERR, FLUSH},
	{"send longer than the receive", IBV_WR_SEND, 0, 0, 0, 65, W, 0, 64, 7, IBV_WC_REM_INV_REQ_ERR,
		IBV_WC_LOC_LEN_ERR},
	{"send without a receive", IBV_WR_SEND, 0, 0, 0, 8, W, 0, 0, 2, IBV_WC_RNR_RETRY_EXC_ERR, FLUSH},
	{"write with immediate without a receive", IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0, 8, W, 0, 0, 1,
		IBV_WC_RNR_RETRY_EXC_ERR, FLUSH},
};

static void post(struct link *l, const struct error *c, const struct ibv_mr *mr, const struct key *remote,
                 uint64_t id) {
	struct ibv_sge sge = {(uintptr_t)mr->addr, c->length, mr->lkey ^ c->wrong_lkey};
	struct ibv_send_wr wr, *bad;
	memset(&wr, 0, sizeof wr);
	wr.wr_id = id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = c->opcode;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote->addr + (uint64_t)c->past;
		wr.wr.atomic.rkey = remote->rkey ^ c->wrong_rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote->addr + (uint64_t)c->past;
		wr.wr.rdma.rkey = remote->rkey ^ c->wrong_rkey;
	}
	DO(ibv_post_send(l->qp, &wr, &bad));
}

static void in_error(struct link *l) {
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	DO(ibv_query_qp(l->qp, &a, IBV_QP_STATE, &init));
	SAME(a.qp_state, IBV_QPS_ERR);
}

static void one(struct end *e, const struct error *c) {
	struct link_config f = {IBV_QPT_RC, 0, c->qp_access, c->rnr_retry, 0, 0, 0};
	struct link l = link_open(e, &f);
	uint8_t *at = malloc(3 * SIZE);
	struct ibv_sge sge;
	struct ibv_recv_wr recv = {3, NULL, &sge, 1}, *bad;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct key remote;
	MUST(at);
	pattern_fill(at, 9, 0, 3 * SIZE);
	MUST((mr = ibv_reg_mr(e->pd, at + SIZE, SIZE, IBV_ACCESS_LOCAL_WRITE | (e->active ? 0 : c->mr_access))));
	if (!e->active && c->receive) {
		sge.addr = (uintptr_t)mr->addr;
		sge.length = c->receive;
		sge.lkey = mr->lkey;
		DO(ibv_post_recv(l.qp, &recv, &bad));
	}
	remote = show(e, mr);
	if (e->active) {
		post(&l, c, mr, &remote, 1);
		wait_completion(e->cq, &wc);
		SAME(wc.status, c->status);
		SAME(wc.wr_id, 1);
		SAME(wc.qp_num, l.qp->qp_num);
		in_error(&l);
		post(&l, c, mr, &remote, 2);
		wait_completion(e->cq, &wc);
		SAME(wc.status, FLUSH);
		SAME(wc.wr_id, 2);
	}
	meet(e, c->name);
	if (!e->active && c->receive) {
		if (c->receives == FLUSH) { /* the request did not consume the receive: the error state flushes it */
			struct ibv_qp_attr a = {0};
			a.qp_state = IBV_QPS_ERR;
			DO(ibv_modify_qp(l.qp, &a, IBV_QP_STATE));
		}
		wait_completion(e->rcq, &wc);
		SAME(wc.status, c->receives);
		SAME(wc.wr_id, 3);
	}
	pattern_check(at, 9, 0, SIZE, "bytes before the region");
	if (!c->receive)
		pattern_check(at + SIZE, 9, SIZE, SIZE, "bytes of the region");
	pattern_check(at + 2 * SIZE, 9, 2 * SIZE, SIZE, "bytes behind the region");
	DO(ibv_dereg_mr(mr));
	link_close(&l);
	free(at);
	meet(e, c->name);
}

/* A write with the key of memory that is no longer registered. */
static void deregistered(struct end *e) {
	struct error c = cases[0];
	struct link_config f = {IBV_QPT_RC, 0, 0, 7, 0, 0, 0};
	struct link l = link_open(e, &f);
	uint8_t *at = malloc(SIZE);
	struct ibv_mr *mr, *other;
	struct ibv_wc wc;
	struct key remote;
	c.wrong_rkey = 0;
	MUST(at && (mr = ibv_reg_mr(e->pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE | W)));
	MUST((other = ibv_reg_mr(e->pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE | W)));
	remote = show(e, mr);
	if (!e->active)
		DO(ibv_dereg_mr(mr));
	meet(e, "deregistered");
	if (e->active) {
		post(&l, &c, mr, &remote, 1);
		wait_completion(e->cq, &wc);
		SAME(wc.status, REMOTE);
		DO(ibv_dereg_mr(mr));
	}
	meet(e, "deregistered, written");
	DO(ibv_dereg_mr(other));
	link_close(&l);
	free(at);
}

/* A write to a peer whose queue pair has been destroyed. */
static void gone(struct end *e) {
	struct error c = cases[0];
	struct link_config f = {IBV_QPT_RC, 0, 0, 7, 1, 8, 0}; /* timeout 8 is 1 ms */
	struct link l = link_open(e, &f);
	uint8_t *at = malloc(SIZE);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct key remote;
	c.wrong_rkey = 0;
	MUST(at && (mr = ibv_reg_mr(e->pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE | W)));
	remote = show(e, mr);
	if (!e->active)
		link_close(&l);
	meet(e, "gone");
	if (e->active) {
		post(&l, &c, mr, &remote, 1);
		wait_completion(e->cq, &wc);
		SAME(wc.status, IBV_WC_RETRY_EXC_ERR);
		link_close(&l);
	}
	DO(ibv_dereg_mr(mr));
	free(at);
	meet(e, "was gone");
}

/* Calls that are refused. */
static void refused(struct end *e) {
	uint8_t *at = malloc(SIZE);
	struct ibv_mr *mr;
	struct ibv_srq_init_attr srq = {NULL, {1 << 30, 1, 0}};
	MUST(at);
	errno = 0;
	MUST(!ibv_reg_mr(e->pd, at, SIZE, W)); /* remote write without local write */
	SAME(errno, EINVAL);
	/* No memory is mapped there. */
	MUST(!ibv_reg_mr(e->pd, (void *)(uintptr_t)4096, SIZE, IBV_ACCESS_LOCAL_WRITE));
	SAME(errno, EFAULT);
	MUST(!ibv_create_cq(e->context, 1 << 30, NULL, NULL, 0));
	SAME(errno, EINVAL);
	MUST(!ibv_create_cq(e->context, 8, NULL, NULL, e->context->num_comp_vectors));
	SAME(errno, EINVAL);
	MUST(!ibv_create_srq(e->pd, &srq));
	MUST((mr = ibv_reg_mr(e->pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE)));
	SAME(ibv_dealloc_pd(e->pd), EBUSY); /* the PD still has an MR */
	DO(ibv_dereg_mr(mr));
	free(at);
}

int errors(struct end *e) {
	size_t i;
	int n = 2;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		enum ibv_wc_status s = cases[i].status;
		/* Devices differ in these. */
		if (e->mixed && (s == IBV_WC_REM_INV_REQ_ERR || s == IBV_WC_LOC_PROT_ERR))
			continue;
		snprintf(doing, sizeof doing, "%s, %s", e->active ? "active" : "passive", cases[i].name);
		one(e, &cases[i]);
		n++;
	}
	snprintf(doing, sizeof doing, "memory deregistered");
	deregistered(e);
	snprintf(doing, sizeof doing, "a peer that has gone");
	gone(e);
	if (!e->mixed) {
		snprintf(doing, sizeof doing, "refused");
		refused(e);
	}
	return n;
}
