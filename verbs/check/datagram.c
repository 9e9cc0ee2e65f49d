/* Datagrams: the header that a receiver finds leads back to the sender, whichever GID or LID the
 * sender used, and multicast groups deliver to each queue pair in them, once.
 *
 *   datagram [DEVICE] */
#include "check.h"

enum { PORT = 1, QKEY = 0x1ee7, GRH = 40, SIZE = 1024, ENDS = 4, DEPTH = 8 };

struct party {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t memory[DEPTH][SIZE];
	unsigned posted;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static struct party *ends[ENDS];

static void receive(struct party *p) {
	uint8_t *at = p->memory[p->posted++ % DEPTH];
	struct ibv_sge sge = {(uintptr_t)at, SIZE, p->mr->lkey};
	struct ibv_recv_wr wr = {(uintptr_t)at, NULL, &sge, 1}, *bad;
	memset(at, 0xee, SIZE);
	DO(ibv_post_recv(p->qp, &wr, &bad));
}

static struct party *party(void) {
	struct party *p = calloc(1, sizeof *p);
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	MUST(p);
	MUST((p->cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	memset(&init, 0, sizeof init);
	init.send_cq = init.recv_cq = p->cq;
	init.qp_type = IBV_QPT_UD;
	init.cap.max_send_wr = init.cap.max_recv_wr = DEPTH;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	MUST((p->qp = ibv_create_qp(pd, &init)));
	MUST((p->mr = ibv_reg_mr(pd, p->memory, sizeof p->memory, IBV_ACCESS_LOCAL_WRITE)));
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = PORT;
	a.qkey = QKEY;
	DO(ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	DO(ibv_modify_qp(p->qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	DO(ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return p;
}

/* Sends the pattern of a seed, and waits until that is done. The memory is that of no receive. */
static void send_to(struct party *from, struct ibv_ah *ah, uint32_t qpn, uint64_t seed, uint32_t n) {
	uint8_t text[512];
	struct ibv_sge sge = {(uintptr_t)text, n, 0};
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	MUST((mr = ibv_reg_mr(pd, text, sizeof text, 0)));
	sge.lkey = mr->lkey;
	pattern_fill(text, seed, 0, n);
	memset(&wr, 0, sizeof wr);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	DO(ibv_post_send(from->qp, &wr, &bad));
	/* A sender in a group may receive its own message first. */
	do
		wait_completion(from->cq, &wc);
	while (wc.opcode != IBV_WC_SEND);
	SAME(wc.status, IBV_WC_SUCCESS);
	DO(ibv_dereg_mr(mr));
}

static struct ibv_grh *arrived(struct party *p, struct ibv_wc *wc, const struct party *from, uint64_t seed,
                               uint32_t n) {
	uint8_t *at;
	wait_completion(p->cq, wc);
	SAME(wc->status, IBV_WC_SUCCESS);
	SAME(wc->opcode, IBV_WC_RECV);
	SAME(wc->byte_len, GRH + n);
	SAME(wc->src_qp, from->qp->qp_num);
	at = (uint8_t *)(uintptr_t)wc->wr_id;
	pattern_check(at + GRH, seed, 0, n, "datagram");
	return (struct ibv_grh *)at;
}

/* The receiver answers to the address in the header of what it received. */
static void there_and_back(struct ibv_ah_attr *to, const struct ibv_gid_entry *gid, unsigned seed) {
	struct party *a = ends[0], *b = ends[1];
	struct ibv_gid_entry found;
	struct ibv_ah_attr back;
	struct ibv_grh *grh;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	receive(b);
	MUST((ah = ibv_create_ah(pd, to)));
	send_to(a, ah, b->qp->qp_num, seed, 100 + seed);
	DO(ibv_destroy_ah(ah));
	grh = arrived(b, &wc, a, seed, 100 + seed);
	SAME(!!(wc.wc_flags & IBV_WC_GRH), !!to->is_global);
	DO(ibv_init_ah_from_wc(context, PORT, &wc, grh, &back));
	SAME(back.is_global, to->is_global);
	SAME(back.dlid, to->dlid);
	if (gid) {
		DO(ibv_query_gid_ex(context, PORT, back.grh.sgid_index, &found, 0));
		SAME(found.gid_type, gid->gid_type);
		MUST(memcmp(&found.gid, &gid->gid, sizeof gid->gid) == 0);
		MUST(memcmp(&back.grh.dgid, &gid->gid, sizeof gid->gid) == 0);
	}
	receive(a);
	MUST((ah = ibv_create_ah_from_wc(pd, &wc, grh, PORT)));
	send_to(b, ah, wc.src_qp, seed + 1, 7);
	DO(ibv_destroy_ah(ah));
	arrived(a, &wc, b, seed + 1, 7);
}

static unsigned unicast(void) {
	struct ibv_gid_entry gid;
	struct ibv_ah_attr to;
	unsigned i, n = 0;
	for (i = 0; i < (unsigned)port.gid_tbl_len; i++) {
		snprintf(doing, sizeof doing, "GID %u", i);
		if (ibv_query_gid_ex(context, PORT, i, &gid, 0) != 0) {
			MUST(errno == ENODATA);
			continue;
		}
		memset(&to, 0, sizeof to);
		to.port_num = PORT;
		to.dlid = port.lid;
		to.is_global = 1;
		to.grh.dgid = gid.gid;
		to.grh.sgid_index = (uint8_t)i;
		to.grh.hop_limit = 64;
		there_and_back(&to, &gid, 10 * i);
		n++;
	}
	if (port.link_layer == IBV_LINK_LAYER_INFINIBAND) {
		snprintf(doing, sizeof doing, "LID");
		memset(&to, 0, sizeof to);
		to.port_num = PORT;
		to.dlid = port.lid;
		there_and_back(&to, NULL, 333);
		n++;
	}
	return n;
}

static void multicast(const union ibv_gid *group, uint16_t lid) {
	struct ibv_ah_attr to;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	int i, round;
	memset(&to, 0, sizeof to);
	to.port_num = PORT;
	to.dlid = lid;
	to.is_global = 1;
	to.grh.dgid = *group;
	to.grh.sgid_index = 0;
	to.grh.hop_limit = 1;
	MUST((ah = ibv_create_ah(pd, &to)));
	for (i = 0; i < ENDS - 1; i++)
		DO(ibv_attach_mcast(ends[i]->qp, group, lid));
	DO(ibv_attach_mcast(ends[1]->qp, group, lid));
	for (round = 0; round < 3; round++) {
		for (i = 1; i < ENDS; i++)
			receive(ends[i]);
		send_to(ends[0], ah, 0xffffff, 500 + (unsigned)round, 64);
		for (i = 1; i < ENDS - 1; i++)
			arrived(ends[i], &wc, ends[0], 500 + (unsigned)round, 64);
		SAME(ibv_poll_cq(ends[ENDS - 1]->cq, 1, &wc), 0); /* is in no group */
		SAME(ibv_poll_cq(ends[1]->cq, 1, &wc), 0);        /* attached twice, receives once */
	}
	receive(ends[1]); /* the sender, which is in the group, has no receive: it misses the datagram */
	DO(ibv_detach_mcast(ends[2]->qp, group, lid));
	MUST(ibv_detach_mcast(ends[2]->qp, group, lid) != 0);
	send_to(ends[0], ah, 0xffffff, 600, 10);
	arrived(ends[1], &wc, ends[0], 600, 10);
	SAME(ibv_poll_cq(ends[2]->cq, 1, &wc), 0);
	receive(ends[0]);
	send_to(ends[1], ah, 0xffffff, 601, 10);
	arrived(ends[0], &wc, ends[1], 601, 10);
	DO(ibv_detach_mcast(ends[0]->qp, group, lid));
	DO(ibv_detach_mcast(ends[1]->qp, group, lid));
	DO(ibv_destroy_ah(ah));
}

int main(int argc, char **argv) {
	static const union ibv_gid groups[] = {
	    {.raw = {0xff, 0x0e, [15] = 0x77}},
	    {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}},
	};
	unsigned i, n;
	context = open_device(argc > 1 ? argv[1] : NULL);
	DO(ibv_query_port(context, PORT, &port));
	MUST((pd = ibv_alloc_pd(context)));
	for (i = 0; i < ENDS; i++)
		ends[i] = party();
	n = unicast();
	for (i = 0; i < sizeof groups / sizeof *groups; i++) {
		snprintf(doing, sizeof doing, "group %u", i);
		multicast(&groups[i], port.link_layer == IBV_LINK_LAYER_INFINIBAND ? 0xc001 : 0);
	}
	MUST(ibv_attach_mcast(ends[0]->qp, &(union ibv_gid){.raw = {0xfe, 0x80}}, 0xc001) != 0);
	for (i = 0; i < ENDS; i++) {
		DO(ibv_destroy_qp(ends[i]->qp));
		DO(ibv_dereg_mr(ends[i]->mr));
		DO(ibv_destroy_cq(ends[i]->cq));
		free(ends[i]);
	}
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("datagram: %s: %u addresses, 2 groups: ok\n",
	       port.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet", n);
	return 0;
}
