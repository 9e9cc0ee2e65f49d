#include "end.h"

#include <unistd.h>

static const int everything =
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

void swap(struct end *e, const void *mine, void *theirs, size_t n) {
	size_t done = 0;
	MUST(write(e->talk, mine, n) == (ssize_t)n); /* n is small enough for the socket's buffer */
	while (done < n) {
		ssize_t got = read(e->talk, (char *)theirs + done, n - done);
		if (got <= 0)
			FAIL("the other end has gone: %s", got ? strerror(errno) : "end of file");
		done += (size_t)got;
	}
}

void meet(struct end *e, const char *step) {
	char mine[64] = "", theirs[64];
	strncpy(mine, step, sizeof mine - 1);
	swap(e, mine, theirs, sizeof mine);
	if (memcmp(mine, theirs, sizeof mine))
		FAIL("is at %s, the other end at %s", mine, theirs);
}

struct key show(struct end *e, const struct ibv_mr *mr) {
	struct key mine = {(uintptr_t)mr->addr, mr->rkey, 0}, theirs;
	swap(e, &mine, &theirs, sizeof mine);
	return e->active ? theirs : mine;
}

void end_open(struct end *e, int talk, int active, const char *device, uint8_t gid_index) {
	struct ibv_srq_init_attr srq = {NULL, {DEPTH, PIECES, 0}};
	memset(e, 0, sizeof *e);
	e->talk = talk;
	e->active = active;
	e->context = open_device(device);
	DO(ibv_query_port(e->context, 1, &e->port));
	SAME(e->port.state, IBV_PORT_ACTIVE);
	e->gid_index = gid_index;
	DO(ibv_query_gid(e->context, 1, gid_index, &e->gid));
	swap(e, &e->port.active_mtu, &e->mtu, sizeof e->mtu);
	if (e->mtu > e->port.active_mtu)
		e->mtu = e->port.active_mtu;
	MUST((e->pd = ibv_alloc_pd(e->context)));
	MUST((e->cq = ibv_create_cq(e->context, 4 * DEPTH, e, NULL, 0)));
	MUST((e->rcq = ibv_create_cq(e->context, 4 * DEPTH, e, NULL, 1)));
	MUST((e->srq = ibv_create_srq(e->pd, &srq)));
}

void end_close(struct end *e) {
	DO(ibv_destroy_srq(e->srq));
	DO(ibv_destroy_cq(e->rcq));
	DO(ibv_destroy_cq(e->cq));
	DO(ibv_dealloc_pd(e->pd));
	DO(ibv_close_device(e->context));
	close(e->talk);
}

static void grh(struct end *e, struct ibv_ah_attr *a, const union ibv_gid *gid) {
	memset(a, 0, sizeof *a);
	a->is_global = 1;
	a->grh.dgid = *gid;
	a->grh.sgid_index = e->gid_index;
	a->grh.hop_limit = 1;
	a->port_num = 1;
}

static void to_rtr(struct end *e, struct link *l, const struct link_config *f, uint32_t psn,
                   const union ibv_gid *gid) {
	struct ibv_qp_attr a = {0};
	int mask = IBV_QP_STATE;
	a.qp_state = IBV_QPS_RTR;
	if (f->type == IBV_QPT_UD) {
		struct ibv_ah_attr ah;
		grh(e, &ah, gid);
		MUST((l->ah = ibv_create_ah(e->pd, &ah)));
	} else {
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		grh(e, &a.ah_attr, gid);
		a.path_mtu = e->mtu;
		a.dest_qp_num = l->peer;
		a.rq_psn = psn;
	}
	if (f->type == IBV_QPT_RC) {
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a.max_dest_rd_atomic = 4;
		a.min_rnr_timer = 1; /* 10 microseconds */
	}
	DO(ibv_modify_qp(l->qp, &a, mask));
}

static void to_rts(struct link *l, const struct link_config *f, uint32_t psn) {
	struct ibv_qp_attr a = {0};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = psn;
	if (f->type == IBV_QPT_RC) {
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		a.timeout = f->timeout ? f->timeout : 14;
		a.retry_cnt = f->retry ? f->retry : 7;
		a.rnr_retry = f->rnr_retry;
		a.max_rd_atomic = 4;
	}
	DO(ibv_modify_qp(l->qp, &a, mask));
}

struct link link_open(struct end *e, const struct link_config *f) {
	struct link l = {NULL, NULL, 0};
	struct ibv_qp_init_attr init = {NULL, e->cq, e->rcq, f->srq ? e->srq : NULL,
		{DEPTH, DEPTH, PIECES, PIECES, INLINE}, f->type, 0};
	struct ibv_qp_attr a = {0};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	struct {
		union ibv_gid gid;
		uint32_t qpn, psn;
	} mine = {e->gid, 0, 0x10000u + (uint32_t)e->active}, theirs;
	MUST((l.qp = ibv_create_qp(e->pd, &init)));
	MUST(init.cap.max_inline_data >= INLINE);
	mine.qpn = l.qp->qp_num;
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	if (f->type == IBV_QPT_UD) {
		mask |= IBV_QP_QKEY;
		a.qkey = 0x11111111;
	} else {
		mask |= IBV_QP_ACCESS_FLAGS;
		a.qp_access_flags = (unsigned)(f->access ? f->access : everything);
		if (f->type == IBV_QPT_UC)
			a.qp_access_flags &= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	}
	DO(ibv_modify_qp(l.qp, &a, mask));
	theirs = mine;
	if (!f->self)
		swap(e, &mine, &theirs, sizeof mine);
	l.peer = theirs.qpn;
	to_rtr(e, &l, f, theirs.psn, &theirs.gid);
	to_rts(&l, f, mine.psn);
	if (!f->self)
		meet(e, "connected");
	return l;
}

void link_close(struct link *l) {
	if (l->ah)
		DO(ibv_destroy_ah(l->ah));
	DO(ibv_destroy_qp(l->qp));
	memset(l, 0, sizeof *l);
}
