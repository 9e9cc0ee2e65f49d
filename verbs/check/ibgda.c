/* ibgda: the order in which the transport IBGDA of NVSHMEM calls libmlx5, and the way in which its kernels
 * post and poll.
 *
 * Two PEs, here of one process, have two DCTs of the verbs, two DCIs and a queue pair of type RC each. The
 * queues of sends are made by DEVX, their receives belong to an SRQ and a CQ of the verbs. Completion queues
 * are collapsed: kernels read the counter in entry 0. Only the last WQE of a batch has a completion; behind
 * one of two blocks, whose counter is that of its first block, it is that of a NOP. */
#include "library.h"

enum { LOG = 10, SIZE = 1 << LOG, PES = 2, DCTS = 2, DCIS = 2, DEPTH = 16384, HEAP = 65536, ROUNDS = 2100 };
enum { DC_KEY = 0x5623ceaf, FENCE = 2 << 5 };

struct endpoint {
	struct queue q;
	int dci;
	struct umem cqes, cq_record;
	struct mlx5dv_devx_uar *cq_uar, *uar;
	struct mlx5dv_devx_obj *cq, *qp;
	struct umem wqes, record; /* of a queue pair of type RC */
};

struct pe {
	struct ibv_srq *srq, *dct_srq;
	struct ibv_cq *receives, *dct_sends, *dct_receives;
	struct ibv_pd *parent;
	struct ibv_qp *dct[DCTS];
	struct mlx5_wqe_av av[DCTS]; /* for those who send to the DCTs */
	struct umem wqes, records;   /* of the DCIs, one behind the other */
	struct endpoint dci[DCIS], rc;
	uint8_t *heap;
	struct ibv_mr *mr, *fetched;
	uint64_t *old; /* where fetched values go */
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static struct path path;
static struct pe pes[PES];

/* The library leaves a device out that has not all of this. */
static void probe(void) {
	uint8_t out[CAPS];
	struct ibv_device_attr attr;
	struct mlx5dv_devx_uar *uar;
	struct umem u;
	DO(ibv_query_device(context, &attr));
	query_caps(context, 0, out);
	SAME(get_bits(out + CAP, 0x3c, 3, 0), 1); /* cqe_version */
	MUST((uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF)));
	/* So many bytes are given to CUDA. */
	MUST(((uintptr_t)uar->reg_addr & 4095) + (1u << get_bits(out + CAP, 0x4c, 20, 16)) <= 4096);
	mlx5dv_devx_free_uar(uar);
	u = umem_with(context, 8, 0, IBV_ACCESS_LOCAL_WRITE);
	umem_free(&u);
	query_caps(context, 3, out);
	SAME(get_bits(out + CAP, 0x10, 3, 0), 15);   /* masked compare and swap, masked fetch and add */
	SAME(get_bits(out + CAP, 0x14, 3, 2), 3);    /* of 4 and 8 bytes, of RC */
	SAME(get_bits(out + CAP, 0x18, 3, 2), 3);    /* and of DC */
	DO(ibv_query_port(context, 1, &port));
}

static void share(struct pe *p) {
	struct ibv_srq_init_attr a = {NULL, {DEPTH, 1, 0}};
	struct ibv_parent_domain_init_attr parent = {0};
	MUST((p->srq = ibv_create_srq(pd, &a)));
	MUST((p->receives = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
	parent.pd = pd;
	MUST((p->parent = ibv_alloc_parent_domain(context, &parent)));
	MUST((p->dct_srq = ibv_create_srq(p->parent, &a)));
	MUST((p->dct_sends = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
	MUST((p->dct_receives = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
}

static void create_dct(struct pe *p, int i) {
	struct ibv_qp_init_attr_ex attr = {0};
	struct mlx5dv_qp_init_attr dv = {0};
	struct ibv_qp_attr a = {0};
	struct mlx5dv_obj o = {0};
	struct mlx5dv_ah ah = {0};
	dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
	dv.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
	dv.dc_init_attr.dct_access_key = DC_KEY;
	attr.pd = p->parent;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.qp_type = IBV_QPT_DRIVER;
	attr.srq = p->dct_srq;
	attr.send_cq = p->dct_sends;
	attr.recv_cq = p->dct_receives;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = SIZE;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	attr.cap.max_inline_data = 256;
	MUST((p->dct[i] = mlx5dv_create_qp(context, &attr, &dv)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE |
	                    IBV_ACCESS_REMOTE_ATOMIC;
	DO(ibv_modify_qp(p->dct[i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = port.active_mtu;
	a.min_rnr_timer = 12;
	a.ah_attr = path_attr(&path);
	DO(ibv_modify_qp(p->dct[i], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER));
	MUST((o.ah.in = ibv_create_ah(pd, &a.ah_attr)));
	o.ah.out = &ah;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_AH));
	p->av[i] = *ah.av;
	p->av[i].key.dc_key = htobe64(DC_KEY);
	p->av[i].dqp_dct = htobe32(p->dct[i]->qp_num | 1u << 31);
	DO(ibv_destroy_ah(o.ah.in));
}

/* Creates a queue pair whose ring and record are in umems, at the place of number `at`. */
static void create(struct pe *p, struct endpoint *e, int dci, const struct umem *wqes, const struct umem *record,
                   int at, int user_index) {
	uint8_t in[MAILBOX], out[CAPS];
	uint32_t eqn;
	e->dci = dci;
	e->q.log_wqes = e->q.log_cqes = LOG;
	query_caps(context, 0, out);
	e->cqes = umem_with(context, SIZE * 64, 0xff, IBV_ACCESS_LOCAL_WRITE);
	e->cq_record = umem_with(context, 8, 0, IBV_ACCESS_LOCAL_WRITE);
	DO(mlx5dv_devx_query_eqn(context, 0, &eqn));
	MUST((e->cq_uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC)));
	box(in, "000:04000000 010:02120000 01c:0a000000 028:04000000 05c:80000000");
	put_bits(in, 0x14, 31, 0, e->cq_record.umem->umem_id);
	put_bits(in, 0x1c, 23, 0, e->cq_uar->page_id);
	put_bits(in, 0x24, 7, 0, eqn);
	put_bits(in, 0x58, 31, 0, e->cqes.umem->umem_id);
	e->cq = make(context, in, &e->q.cqn);
	if (!(e->uar = mlx5dv_devx_alloc_uar(context, NC_DEDICATED)))
		MUST((e->uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF)));
	if (!wqes) {
		e->wqes = umem_with(context, SIZE * 64, 0, IBV_ACCESS_LOCAL_WRITE);
		e->record = umem_with(context, 8, 0, IBV_ACCESS_LOCAL_WRITE);
		wqes = &e->wqes;
		record = &e->record;
	}
	box(in, "000:05000000 018:00001800 020:00005000 0c4:01000000 0e8:10000000 10c:80000000");
	put_bits(in, 0x18, 23, 16, dci ? 5 : 0);
	put_bits(in, 0x1c, 23, 0, pd_number(pd));
	put_bits(in, 0x24, 23, 0, e->uar->page_id);
	put_bits(in, 0x28, 23, 0, (uint64_t)user_index);
	put_bits(in, 0x94, 23, 0, e->q.cqn);
	put_bits(in, 0xb4, 23, 0, cq_number(p->receives));
	put_bits(in, 0xbc, 31, 0, (uint64_t)at * 8);
	put_bits(in, 0xc4, 23, 0, srq_number(p->srq));
	put_bits(in, 0xfc, 31, 0, record->umem->umem_id);
	put_bits(in, 0x104, 31, 0, (uint64_t)at * SIZE * 64);
	put_bits(in, 0x108, 31, 0, wqes->umem->umem_id);
	e->qp = make(context, in, &e->q.qpn);
	e->q.wqes = wqes->at + (size_t)at * SIZE * 64;
	e->q.record = record->at + 8 * at;
	e->q.cqes = e->cqes.at;
	e->q.reg = e->uar->reg_addr;
}

static void connect_to(struct endpoint *e, const struct endpoint *peer) {
	uint8_t in[MAILBOX];
	box(in, e->dci ? "000:05020000 018:00001800 054:00010000 0e4:5623ceaf"
	               : "000:05020000 018:00001800 054:00010000 0a8:0003e000");
	put_bits(in, 8, 23, 0, e->q.qpn);
	devx_modify(e->qp, in);
	if (e->dci) {
		box(in, "000:05030000 020:1e000000");
	} else {
		box(in, "000:05030000 020:1e000000 038:000000ff 050:0000c000 0a8:00800000 0ac:0c000000");
		put_bits(in, 0x2c, 23, 0, peer->q.qpn);
		box_path(in, &path);
	}
	put_bits(in, 0x20, 31, 29, port.active_mtu);
	put_bits(in, 8, 23, 0, e->q.qpn);
	devx_modify(e->qp, in);
	box(in, "000:05040000 038:a0000000 088:0087e000");
	put_bits(in, 8, 23, 0, e->q.qpn);
	devx_modify(e->qp, in);
}

static void destroy(struct endpoint *e) {
	DO(mlx5dv_devx_obj_destroy(e->qp));
	mlx5dv_devx_free_uar(e->uar);
	DO(mlx5dv_devx_obj_destroy(e->cq));
	mlx5dv_devx_free_uar(e->cq_uar);
	umem_free(&e->cqes);
	umem_free(&e->cq_record);
	umem_free(&e->wqes);
	umem_free(&e->record);
}

static void create_pe(struct pe *p) {
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
	share(p);
	for (int i = 0; i < DCTS; i++)
		create_dct(p, i);
	p->wqes = umem_with(context, DCIS * SIZE * 64, 0, IBV_ACCESS_LOCAL_WRITE);
	p->records = umem_with(context, DCIS * 8, 0, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < DCIS; i++)
		create(p, &p->dci[i], 1, &p->wqes, &p->records, i, i);
	create(p, &p->rc, 0, NULL, NULL, 0, DCIS);
	DO(posix_memalign((void **)&p->heap, 4096, HEAP));
	DO(posix_memalign((void **)&p->old, 4096, 4096));
	memset(p->heap, 0, HEAP);
	MUST((p->mr = ibv_reg_mr(pd, p->heap, HEAP, all)));
	MUST((p->fetched = ibv_reg_mr(pd, p->old, 4096, all)));
}

static void destroy_pe(struct pe *p) {
	DO(ibv_dereg_mr(p->mr));
	for (int i = 0; i < DCTS; i++)
		DO(ibv_destroy_qp(p->dct[i]));
	for (int i = 0; i < DCIS; i++)
		destroy(&p->dci[i]);
	destroy(&p->rc);
	DO(ibv_dereg_mr(p->fetched));
	umem_free(&p->wqes);
	umem_free(&p->records);
	DO(ibv_destroy_cq(p->dct_receives));
	DO(ibv_destroy_cq(p->dct_sends));
	DO(ibv_destroy_srq(p->dct_srq));
	DO(ibv_dealloc_pd(p->parent));
	DO(ibv_destroy_cq(p->receives));
	DO(ibv_destroy_srq(p->srq));
	free(p->heap);
	free(p->old);
}

/* Posts. A WQE of a DCI has an address vector first, which fills its first block, and has no completion. */
struct target {
	struct pe *from, *to;
	struct endpoint *e;
	int dct;
};

static int begin(const struct target *t, uint32_t opcode, int segments) {
	int first = 1;
	if (t->e->dci)
		segments += 3;
	control(&t->e->q, opcode, 1 + segments);
	if (t->e->dci) {
		for (int i = 0; i < 3; i++)
			memcpy(segment(&t->e->q, 1 + i), (uint8_t *)&t->to->av[t->dct] + 16 * i, 16);
		first = 4;
	}
	if (1 + segments > 4)
		segment(&t->e->q, 0)[11] = 0;
	return first;
}

static void end(const struct target *t, int segments) {
	struct queue *q = &t->e->q;
	if (1 + segments + (t->e->dci ? 3 : 0) <= 4) {
		q->posted++;
		return;
	}
	q->posted += 2;
	control(q, MLX5_OPCODE_NOP, 2);
	q->posted++;
}

static void transfer(const struct target *t, uint32_t opcode, uint64_t remote, uint64_t local, uint32_t n) {
	int at = begin(t, opcode, 2);
	wqe_remote(segment(&t->e->q, at), (uintptr_t)t->to->heap + remote, t->to->mr->rkey);
	wqe_data(segment(&t->e->q, at + 1), n, t->from->mr->lkey, (uintptr_t)t->from->heap + local);
	end(t, 2);
}

static void put_inline(const struct target *t, uint64_t remote, const void *bytes, uint32_t n) {
	int at = begin(t, MLX5_OPCODE_RDMA_WRITE, 2);
	MUST(n <= 12);
	wqe_remote(segment(&t->e->q, at), (uintptr_t)t->to->heap + remote, t->to->mr->rkey);
	put_bits(segment(&t->e->q, at + 1), 0, 31, 0, MLX5_INLINE_SEG | n);
	memcpy(segment(&t->e->q, at + 1) + 4, bytes, n);
	end(t, 2);
}

/* Compare and swap of 8 bytes has its masks in a segment of their own. */
static void atomic(const struct target *t, const struct amo *a, uint32_t n, uint64_t remote) {
	int segments = !a->add && n == 8 ? 4 : 3, at = begin(t, amo_opcode(a, n), segments);
	wqe_remote(segment(&t->e->q, at), (uintptr_t)t->to->heap + remote, t->to->mr->rkey);
	amo_operands(&t->e->q, at + 1, a, n);
	wqe_data(segment(&t->e->q, at + segments - 1), n, t->from->fetched->lkey, (uintptr_t)t->from->old);
	end(t, segments);
}

static void announce(struct endpoint *e) {
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n((uint32_t *)(e->q.record + 4), htobe32(e->q.posted & 0xffff), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	ring_index(&e->q, e->q.reg);
}

/* Waits until all is complete, as kernels do: by the 16 bits of the counter alone, and then the opcode. */
static void quiet(struct endpoint *e) {
	struct mlx5_cqe64 *cqe = (struct mlx5_cqe64 *)e->q.cqes;
	uint16_t counter;
	announce(e);
	AWAIT((counter = be16toh(__atomic_load_n(&cqe->wqe_counter, __ATOMIC_ACQUIRE)),
	       (uint16_t)(e->q.posted - counter - 2) >= SIZE));
	SAME(__atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4, MLX5_CQE_REQ);
	SAME(counter, (e->q.posted - 1) & 0xffff);
}

static uint64_t at64(const struct pe *p, uint64_t at) {
	return __atomic_load_n((uint64_t *)(p->heap + at), __ATOMIC_RELAXED);
}

static void puts_and_gets(const struct target *t) {
	struct queue *q = &t->e->q;
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		int n = (int)(i % 64) + 1;
		for (int k = 0; k < n; k++) { /* one completion for all */
			memcpy(t->from->heap + 8 * k, &(uint64_t){i << 8 | (uint64_t)k}, 8);
			transfer(t, MLX5_OPCODE_RDMA_WRITE, (uint64_t)(4096 + 8 * k), (uint64_t)(8 * k), 8);
			if (!t->e->dci && k < n - 1)
				q->wqes[(size_t)((q->posted - 1) % SIZE) * 64 + 11] = 0;
		}
		quiet(t->e);
		for (int k = 0; k < n; k++)
			SAME(at64(t->to, (uint64_t)(4096 + 8 * k)), i << 8 | (uint64_t)k);
	}
	put_inline(t, 8192, "twelve bytes", 12);
	quiet(t->e);
	DO(memcmp(t->to->heap + 8192, "twelve bytes", 12));
	pattern_fill(t->to->heap + 12288, t->e->q.qpn, 0, 4000);
	transfer(t, MLX5_OPCODE_RDMA_READ, 12288, 20480, 4000);
	control(q, 0x23, 2); /* DUMP, behind all that was posted */
	segment(q, 0)[11] |= FENCE;
	wqe_data(segment(q, 1), 1, t->from->fetched->lkey, (uintptr_t)t->from->old);
	q->posted++;
	quiet(t->e);
	pattern_check(t->from->heap + 20480, t->e->q.qpn, 0, 4000, "read");
}

/* Bytes behind a value do not change. */
static void atomics(const struct target *t) {
	const uint64_t behind = 0x7700000000;
	for (uint32_t n = 4; n <= 8; n += 4) {
		uint64_t now = 0, rest = n == 4 ? behind : 0;
		memcpy(t->to->heap + 16384, &rest, 8);
		for (int i = 0; i < AMOS; i++) {
			snprintf(doing, sizeof doing, "%s of %u bytes, %s", amos[i].name, n, t->e->dci ? "DC" : "RC");
			memset(t->from->old, 0xee, 8);
			atomic(t, &amos[i], n, 16384);
			quiet(t->e);
			SAME(amo_old(t->from->old, n), now);
			now = amo_result(&amos[i], now, n);
			SAME(at64(t->to, 16384), rest | now);
		}
		SAME(now, 11);
	}
}

/* NVSHMEM takes every error for the end; the entry says which. */
static void fails(const struct target *t) {
	struct mlx5_err_cqe *e = (struct mlx5_err_cqe *)t->e->q.cqes;
	int at = begin(t, MLX5_OPCODE_RDMA_WRITE, 2);
	wqe_remote(segment(&t->e->q, at), (uintptr_t)t->to->heap + HEAP, t->to->mr->rkey);
	wqe_data(segment(&t->e->q, at + 1), 8, t->from->mr->lkey, (uintptr_t)t->from->heap);
	end(t, 2);
	announce(t->e);
	AWAIT(__atomic_load_n(&e->op_own, __ATOMIC_ACQUIRE) >> 4 == MLX5_CQE_REQ_ERR);
	SAME(e->syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
}

int main(void) {
	struct mlx5dv_context_attr attr = {MLX5DV_CONTEXT_FLAGS_DEVX, 0};
	struct ibv_device **list = ibv_get_device_list(NULL);
	MUST(list && list[0]);
	MUST((context = mlx5dv_open_device(list[0], &attr)));
	ibv_free_device_list(list);
	probe();
	MUST((pd = ibv_alloc_pd(context)));
	find_path(pd, &path);
	for (int i = 0; i < PES; i++)
		create_pe(&pes[i]);
	for (int i = 0; i < PES; i++) {
		for (int k = 0; k < DCIS; k++)
			connect_to(&pes[i].dci[k], NULL);
		connect_to(&pes[i].rc, &pes[1 - i].rc);
	}
	for (int i = 0; i < PES; i++) {
		struct target t = {&pes[i], &pes[1 - i], &pes[i].rc, 0};
		snprintf(doing, sizeof doing, "RC of PE %d", i);
		puts_and_gets(&t);
		atomics(&t);
		for (int k = 0; k < DCIS * DCTS; k++) {
			t.e = &pes[i].dci[k % DCIS];
			t.dct = k / DCIS;
			snprintf(doing, sizeof doing, "DCI %d of PE %d, DCT %d", k % DCIS, i, t.dct);
			puts_and_gets(&t);
			atomics(&t);
		}
	}
	for (int i = 0; i < PES; i++) {
		struct target t = {&pes[i], &pes[1 - i], &pes[i].rc, 0};
		snprintf(doing, sizeof doing, "errors of PE %d", i);
		if (i == 0)
			fails(&t);
		t.e = &pes[i].dci[0];
		fails(&t);
	}
	for (int i = 0; i < PES; i++)
		destroy_pe(&pes[i]);
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("ibgda: %d DCTs, %d DCIs, RC, masked atomics: ok\n", DCTS, DCIS);
	return 0;
}
