/* Memory windows: access to a part of a memory region by a key of its own, which can be
 * invalidated while the region's key stays valid. */
#include "steps.h"

enum { SIZE = 4096, AT = 1000, LENGTH = 2000 };

/* Posts a request without data, and waits for its completion. */
static void post(struct end *e, struct link *l, struct ibv_send_wr *wr, enum ibv_wc_opcode opcode) {
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	wr->wr_id = 11;
	wr->send_flags = IBV_SEND_SIGNALED;
	DO(ibv_post_send(l->qp, wr, &bad));
	wait_completion(e->cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	SAME(wc.opcode, opcode);
}

static struct ibv_mw_bind_info part(struct ibv_mr *mr) {
	struct ibv_mw_bind_info b = {mr, (uintptr_t)mr->addr + AT, LENGTH,
	                             IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	return b;
}

/* Writes n bytes with a key of the other end, and returns the status of the write. */
static enum ibv_wc_status write_to(struct end *e, struct link *l, const struct ibv_mr *mr, uint64_t addr,
                                   uint32_t rkey, uint32_t n) {
	struct ibv_sge sge = {(uintptr_t)mr->addr, n, mr->lkey};
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	memset(&wr, 0, sizeof wr);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	DO(ibv_post_send(l->qp, &wr, &bad));
	wait_completion(e->cq, &wc);
	return wc.status;
}

/* Writes once through the window, and once beyond its end. The second write puts the queue
 * pair into the error state. */
static void through(struct end *e, const struct link_config *f, struct link *l, const struct ibv_mr *mr,
                    uint32_t rkey) {
	struct key mine = {(uintptr_t)mr->addr + AT, rkey, 0}, theirs;
	swap(e, &mine, &theirs, sizeof mine);
	pattern_fill(mr->addr, (uint64_t)(e->active + 1), 0, SIZE);
	meet(e, "window bound");
	if (e->active)
		SAME(write_to(e, l, mr, theirs.addr, theirs.rkey, LENGTH), IBV_WC_SUCCESS);
	meet(e, "window written");
	if (!e->active) {
		pattern_check(mr->addr, 1, 0, AT, "bytes before the window");
		pattern_check((uint8_t *)mr->addr + AT, 2, 0, LENGTH, "the window");
		pattern_check((uint8_t *)mr->addr + AT + LENGTH, 1, AT + LENGTH, SIZE - AT - LENGTH,
		              "bytes behind the window");
	}
	if (e->active)
		SAME(write_to(e, l, mr, theirs.addr + 1, theirs.rkey, LENGTH), IBV_WC_REM_ACCESS_ERR);
	meet(e, "window left");
	link_close(l);
	*l = link_open(e, f);
}

static void type1(struct end *e, const struct link_config *f, struct link *l, struct ibv_mr *mr) {
	struct ibv_mw_bind bind = {13, IBV_SEND_SIGNALED, part(mr)};
	struct ibv_mw *mw;
	struct ibv_wc wc;
	MUST((mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_1)));
	DO(ibv_bind_mw(l->qp, mw, &bind));
	wait_completion(e->cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	SAME(wc.opcode, IBV_WC_BIND_MW);
	through(e, f, l, mr, mw->rkey);
	DO(ibv_dealloc_mw(mw));
}

static struct ibv_mw *bind2(struct end *e, struct link *l, struct ibv_mr *mr, uint32_t *rkey) {
	struct ibv_send_wr wr;
	struct ibv_mw *mw;
	MUST((mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_2)));
	memset(&wr, 0, sizeof wr);
	wr.opcode = IBV_WR_BIND_MW;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = *rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = part(mr);
	post(e, l, &wr, IBV_WC_BIND_MW);
	return mw;
}

/* A window that its owner invalidates. */
static void local_invalidate(struct end *e, const struct link_config *f, struct link *l, struct ibv_mr *mr) {
	struct key mine = {(uintptr_t)mr->addr + AT, 0, 0}, theirs;
	struct ibv_send_wr wr;
	struct ibv_mw *mw = bind2(e, l, mr, &mine.rkey);
	swap(e, &mine, &theirs, sizeof mine);
	if (e->active)
		SAME(write_to(e, l, mr, theirs.addr, theirs.rkey, 8), IBV_WC_SUCCESS);
	meet(e, "before local invalidate");
	if (!e->active) {
		memset(&wr, 0, sizeof wr);
		wr.opcode = IBV_WR_LOCAL_INV;
		wr.invalidate_rkey = mine.rkey;
		post(e, l, &wr, IBV_WC_LOCAL_INV);
	}
	meet(e, "behind local invalidate");
	if (e->active)
		SAME(write_to(e, l, mr, theirs.addr, theirs.rkey, 8), IBV_WC_REM_ACCESS_ERR);
	meet(e, "invalid");
	DO(ibv_dealloc_mw(mw));
	link_close(l);
	*l = link_open(e, f);
}

/* A window that a send of the peer invalidates. */
static void send_invalidate(struct end *e, const struct link_config *f, struct link *l, struct ibv_mr *mr) {
	struct key mine = {(uintptr_t)mr->addr + AT, 0, 0}, theirs;
	struct ibv_sge sge = {(uintptr_t)mr->addr, 16, mr->lkey};
	struct ibv_recv_wr recv = {17, NULL, &sge, 1}, *bad_recv;
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	struct ibv_mw *mw = bind2(e, l, mr, &mine.rkey);
	if (!e->active)
		DO(ibv_post_recv(l->qp, &recv, &bad_recv));
	swap(e, &mine, &theirs, sizeof mine);
	if (e->active) {
		memset(&wr, 0, sizeof wr);
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.invalidate_rkey = theirs.rkey;
		DO(ibv_post_send(l->qp, &wr, &bad));
		wait_completion(e->cq, &wc);
		SAME(wc.status, IBV_WC_SUCCESS);
		if (!e->lossy)
			SAME(write_to(e, l, mr, theirs.addr, theirs.rkey, 8), IBV_WC_REM_ACCESS_ERR);
	} else {
		wait_completion(e->rcq, &wc);
		SAME(wc.status, IBV_WC_SUCCESS);
		SAME(wc.byte_len, 16);
		/* Soft-RoCE of Linux 6.1 has the kernel's flag here, whose value is that of another one of
		 * libibverbs. */
		MUST(wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK));
		SAME(wc.invalidated_rkey, mine.rkey);
	}
	meet(e, "invalidated by send");
	DO(ibv_dealloc_mw(mw));
	link_close(l);
	*l = link_open(e, f);
}

/* Runs the steps, or only the last one, with a queue pair and memory that windows can be bound to. */
static void with_link(struct end *e, int all) {
	struct link_config f = {IBV_QPT_RC, 0, 0, 7, 0, 0, 0};
	struct link l = link_open(e, &f);
	void *at = calloc(1, SIZE);
	struct ibv_mr *mr;
	MUST(at);
	MUST((mr = ibv_reg_mr(e->pd, at, SIZE,
	                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                      IBV_ACCESS_MW_BIND)));
	if (all) {
		type1(e, &f, &l, mr);
		local_invalidate(e, &f, &l, mr);
	}
	send_invalidate(e, &f, &l, mr);
	link_close(&l);
	DO(ibv_dereg_mr(mr));
	free(at);
}

void windows(struct end *e) { with_link(e, 1); }

void invalidations(struct end *e) { with_link(e, 0); }
