/* Messages: a pattern that is sent at one end has to arrive at the other. */
#include "steps.h"

enum {
	GUARD = 64,    /* guard bytes before, between and after data segments: they must not change */
	GRH = 40,      /* bytes of the GRH before the message of a UD receive */
	IMM = 0x600d1d
};

enum on { ON_RC, ON_SRQ, ON_UC, ON_UD };

/* An operation and its parameters. */
struct transfer {
	const char *name;
	enum on on;
	enum ibv_wr_opcode opcode;
	int inlined;
	/* Number of data segments of the active end's request, and of the passive end's receive. */
	int gather, scatter;
};

static const struct transfer transfers[] = {
	{"RC write", ON_RC, IBV_WR_RDMA_WRITE, 0, 1, 1},
	{"RC write of pieces", ON_RC, IBV_WR_RDMA_WRITE, 0, 4, 1},
	{"RC write inline", ON_RC, IBV_WR_RDMA_WRITE, 1, 1, 1},
	{"RC write inline of pieces", ON_RC, IBV_WR_RDMA_WRITE, 1, 3, 1},
	{"RC write with immediate", ON_RC, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 1, 1},
	{"RC read", ON_RC, IBV_WR_RDMA_READ, 0, 1, 1},
	{"RC read into pieces", ON_RC, IBV_WR_RDMA_READ, 0, 4, 1},
	{"RC send", ON_RC, IBV_WR_SEND, 0, 1, 1},
	{"RC send inline", ON_RC, IBV_WR_SEND, 1, 1, 1},
	{"RC send of pieces into pieces", ON_RC, IBV_WR_SEND, 0, 2, 4},
	{"RC send with immediate", ON_RC, IBV_WR_SEND_WITH_IMM, 0, 1, 2},
	{"RC send into SRQ", ON_SRQ, IBV_WR_SEND, 0, 1, 1},
	{"RC send of pieces into pieces of SRQ", ON_SRQ, IBV_WR_SEND_WITH_IMM, 0, 3, 3},
	{"RC write with immediate into SRQ", ON_SRQ, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 1, 1},
	{"UC write", ON_UC, IBV_WR_RDMA_WRITE, 0, 1, 1},
	{"UC write with immediate", ON_UC, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 2, 1},
	{"UC send", ON_UC, IBV_WR_SEND, 0, 1, 1},
	{"UC send inline", ON_UC, IBV_WR_SEND_WITH_IMM, 1, 1, 2},
	{"UD send", ON_UD, IBV_WR_SEND, 0, 1, 1},
	{"UD send inline", ON_UD, IBV_WR_SEND, 1, 1, 1},
	{"UD send with immediate", ON_UD, IBV_WR_SEND_WITH_IMM, 0, 2, 3},
};

static int one_sided(const struct transfer *t) {
	return t->opcode == IBV_WR_RDMA_WRITE || t->opcode == IBV_WR_RDMA_READ;
}

static int with_imm(const struct transfer *t) {
	return t->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || t->opcode == IBV_WR_SEND_WITH_IMM;
}

static int is_send(const struct transfer *t) {
	return t->opcode == IBV_WR_SEND || t->opcode == IBV_WR_SEND_WITH_IMM;
}

/* Where a message is in memory: its segments in reverse order, with guard bytes between them. */
struct layout {
	int pieces;
	size_t at[PIECES], first[PIECES], n[PIECES]; /* offset; index in the message; length */
};

size_t transfer_room(size_t size) { return size + (PIECES + 2) * GUARD + GRH; }

static struct layout lay(size_t size, int pieces, size_t head) {
	struct layout l = {0, {0}, {0}, {0}};
	size_t at = GUARD + head, rest = size;
	int k;
	l.pieces = pieces;
	for (k = pieces - 1; k >= 0; k--) {
		l.n[k] = k ? size / (size_t)(pieces + k) : rest; /* uneven */
		rest -= l.n[k];
		l.at[k] = at;
		at += l.n[k] + GUARD - 1; /* and not aligned */
	}
	for (k = 1; k < pieces; k++)
		l.first[k] = l.first[k - 1] + l.n[k - 1];
	return l;
}

static int list(const struct layout *l, const struct memory *m, uint32_t lkey, struct ibv_sge *sge) {
	int k, n = 0;
	for (k = 0; k < l->pieces; k++)
		if (l->n[k]) {
			sge[n].addr = (uintptr_t)m->at + l->at[k];
			sge[n].length = (uint32_t)l->n[k];
			sge[n++].lkey = lkey;
		}
	return n;
}

static void fill(const struct layout *l, const struct memory *m, uint64_t seed) {
	int k;
	for (k = 0; k < l->pieces; k++)
		pattern_fill(m->at + l->at[k], seed, l->first[k], l->n[k]);
}

/* Checks that the message has arrived, and that the bytes around it still have the pattern
 * background. */
static void check(const struct layout *l, const struct memory *m, size_t room, uint64_t seed,
                  uint64_t background, size_t head) {
	size_t at = 0, end;
	int k;
	for (k = l->pieces - 1; k >= 0; k--) {
		end = l->at[k] - (k == l->pieces - 1 ? head : 0);
		pattern_check(m->at + at, background, at, end - at, "bytes beside the message");
		pattern_check(m->at + l->at[k], seed, l->first[k], l->n[k], "the message");
		at = l->at[k] + l->n[k];
	}
	pattern_check(m->at + at, background, at, room - at, "bytes behind the message");
}

static void post_receive(struct end *e, const struct transfer *t, struct link *l, const struct layout *layout,
                         const struct memory *m, const struct ibv_mr *mr, size_t head) {
	struct ibv_sge sge[PIECES + 1];
	struct ibv_recv_wr wr = {7, NULL, sge, 0}, *bad;
	if (t->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		wr.num_sge = list(layout, m, mr->lkey, sge);
	if (head) { /* the GRH is right before the first segment in memory, which is the last of the message */
		memmove(sge + 1, sge, sizeof *sge * (size_t)wr.num_sge);
		sge[0].addr = (uintptr_t)m->at + GUARD;
		sge[0].length = (uint32_t)head;
		sge[0].lkey = mr->lkey;
		wr.num_sge++;
	}
	if (t->on == ON_SRQ)
		DO(ibv_post_srq_recv(e->srq, &wr, &bad));
	else
		DO(ibv_post_recv(l->qp, &wr, &bad));
}

/* The header of a datagram names the destination: as IPv6 and InfiniBand have it in 40 bytes, or, if
 * the GID is an IPv4 address, as IPv4 has it in the last 20, with zeros or anything before it. */
static void grh_check(const uint8_t *grh, const union ibv_gid *gid) {
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	if (memcmp(gid->raw, mapped, sizeof mapped)) {
		SAME(grh[0] >> 4, 6);
		MUST(!memcmp(grh + 24, gid->raw, 16));
	} else {
		SAME(grh[20], 0x45);
		MUST(!memcmp(grh + 36, gid->raw + 12, 4));
	}
}

static void receive(struct end *e, const struct transfer *t, struct link *l, size_t size, size_t head,
                    const struct memory *m) {
	struct ibv_wc wc;
	wait_completion(e->rcq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	SAME(wc.wr_id, 7);
	SAME(wc.opcode, is_send(t) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM);
	SAME(wc.byte_len, size + head);
	SAME(wc.qp_num, l->qp->qp_num);
	SAME(wc.wc_flags & IBV_WC_WITH_IMM, with_imm(t) ? IBV_WC_WITH_IMM : 0);
	if (with_imm(t))
		SAME(wc.imm_data, IMM);
	if (t->on == ON_UD) {
		SAME(wc.src_qp, l->peer);
		SAME(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
		grh_check(m->at + GUARD, &e->gid);
	}
}

static void send_it(struct end *e, const struct transfer *t, struct link *l, const struct layout *layout,
                    const struct memory *m, const struct ibv_mr *mr, const struct key *remote, size_t size) {
	struct ibv_sge sge[PIECES];
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	memset(&wr, 0, sizeof wr);
	wr.wr_id = 5;
	wr.sg_list = sge;
	wr.num_sge = list(layout, m, t->inlined ? 0 : mr->lkey, sge);
	wr.opcode = t->opcode;
	wr.send_flags = IBV_SEND_SIGNALED | (t->inlined ? IBV_SEND_INLINE : 0);
	wr.imm_data = IMM;
	wr.wr.rdma.remote_addr = remote->addr + GUARD;
	wr.wr.rdma.rkey = remote->rkey;
	if (t->on == ON_UD) {
		wr.wr.ud.ah = l->ah;
		wr.wr.ud.remote_qpn = l->peer;
		wr.wr.ud.remote_qkey = 0x11111111;
	}
	DO(ibv_post_send(l->qp, &wr, &bad));
	wait_completion(e->cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	SAME(wc.wr_id, 5);
	if (t->opcode == IBV_WR_RDMA_READ) {
		SAME(wc.opcode, IBV_WC_RDMA_READ);
		SAME(wc.byte_len, size);
	} else {
		SAME(wc.opcode, is_send(t) ? IBV_WC_SEND : IBV_WC_RDMA_WRITE);
	}
}

static void transfer(struct end *e, const struct transfer *t, struct link *l, const struct memory *m,
                     const struct ibv_mr *mr, size_t size) {
	size_t head = t->on == ON_UD ? GRH : 0, room = transfer_room(size);
	int reads = t->opcode == IBV_WR_RDMA_READ, receives = is_send(t);
	struct layout mine = lay(size, e->active ? t->gather : receives ? t->scatter : 1, e->active ? 0 : head);
	struct key remote = show(e, mr);
	uint64_t message = size * 1000 + (uint64_t)(t - transfers), background = ~message;
	snprintf(doing + strlen(doing), sizeof doing - strlen(doing), ", %s", t->name);
	pattern_fill(m->at, background, 0, room);
	if (e->active != reads)
		fill(&mine, m, message);
	if (!e->active && !one_sided(t))
		post_receive(e, t, l, &mine, m, mr, head);
	meet(e, t->name);
	if (e->active)
		send_it(e, t, l, &mine, m, mr, &remote, size);
	else if (!one_sided(t))
		receive(e, t, l, size, head, m);
	meet(e, t->name);
	check(&mine, m, room, message, background, e->active ? 0 : head);
}

void transfer_all(struct end *e, struct links *l, const struct memory *m, const struct ibv_mr *mr,
                  size_t size) {
	struct link *links[] = {&l->rc, &l->srq, &l->uc, &l->ud};
	size_t i, before = strlen(doing), mtu = (size_t)128 << e->mtu;
	for (i = 0; i < sizeof transfers / sizeof *transfers; i++) {
		const struct transfer *t = &transfers[i];
		if (!links[t->on]->qp || (t->on == ON_UD && size > mtu) || (t->inlined && size > INLINE))
			continue;
		if (e->apart && t->on == ON_UC && one_sided(t)) /* its arrival is not reported */
			continue;
		transfer(e, t, links[t->on], m, mr, size);
		doing[before] = 0;
	}
}
