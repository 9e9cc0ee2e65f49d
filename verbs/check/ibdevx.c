/* ibdevx: the order in which the transport ibdevx of NVSHMEM calls libmlx5, and its way to post and poll. The
 * host posts.
 *
 * Umems have no rights. CQs and SRQs are those of the verbs. The record is stored with 16 bits, and the first
 * eight bytes of the WQE are copied to the register. The record of the CQ gets the index modulo the size of
 * the CQ, not modulo 2^24, so it goes back at every turn, and the CQ does not ignore overruns. */
#include "library.h"

enum { LOG = 6, SIZE = 1 << LOG, PES = 2, CQES = 255, HEAP = 65536, ROUNDS = 3000 };

/* A queue pair. tail: blocks that have completed. */
struct endpoint {
	struct queue q;
	uint32_t tail;
	struct mlx5dv_devx_uar *uar;
	struct umem wqes, record;
	struct mlx5dv_devx_obj *qp;
};

struct pe {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct ibv_cq *sends, *receives;
	struct mlx5dv_cq cq; /* of sends */
	uint32_t index;      /* completions of it */
	struct endpoint peer, itself;
	uint8_t *heap;
	struct ibv_mr *mr, *dummy; /* of `unused` */
	uint64_t *unused;          /* for results that nobody wants */
};

static struct pe pes[PES];
static struct path path;
static struct ibv_port_attr port;

static void share(struct pe *p) {
	struct ibv_srq_init_attr a = {NULL, {SIZE, 1, 0}};
	struct mlx5dv_obj o = {0};
	MUST((p->srq = ibv_create_srq(p->pd, &a)));
	MUST((p->receives = ibv_create_cq(p->context, SIZE, NULL, NULL, 0)));
	/* The library asks for as many entries as there can be. Fewer come round more often. */
	MUST((p->sends = ibv_create_cq(p->context, CQES, NULL, NULL, 0)));
	o.cq.in = p->sends;
	o.cq.out = &p->cq;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ));
	SAME(p->cq.cqe_size, 64);
	for (uint32_t i = 0; i < p->cq.cqe_cnt; i++)
		((struct mlx5_cqe64 *)p->cq.buf)[i].op_own |= MLX5_CQE_OWNER_MASK;
}

static void create(struct pe *p, struct endpoint *e) {
	uint8_t in[MAILBOX], out[CAPS];
	e->q.log_wqes = LOG;
	query_caps(p->context, 0, out);
	MUST(get_bits(out + CAP, 0x4c, 20, 16) > 0); /* log_bf_reg_size */
	MUST((e->uar = mlx5dv_devx_alloc_uar(p->context, MLX5DV_UAR_ALLOC_TYPE_BF)));
	e->wqes = umem_with(p->context, SIZE * 64, 0, 0);
	e->record = umem_with(p->context, 8, 0, 0);
	/* wq_umem_valid is not set, and receives come from an SRQ. */
	box(in, "000:05000000 018:00001800 0c4:01000000 0e8:10000000");
	put_bits(in, 0x1c, 23, 0, pd_number(p->pd));
	put_bits(in, 0x20, 14, 11, LOG);
	put_bits(in, 0x24, 23, 0, e->uar->page_id);
	put_bits(in, 0x94, 23, 0, p->cq.cqn);
	put_bits(in, 0xb4, 23, 0, cq_number(p->receives));
	put_bits(in, 0xc4, 23, 0, srq_number(p->srq));
	put_bits(in, 0xfc, 31, 0, e->record.umem->umem_id);
	put_bits(in, 0x108, 31, 0, e->wqes.umem->umem_id);
	e->qp = make(p->context, in, &e->q.qpn);
	e->q.wqes = e->wqes.at;
	e->q.record = e->record.at;
	e->q.reg = e->uar->reg_addr;
}

static void connect_to(struct pe *p, struct endpoint *e, const struct endpoint *peer) {
	uint8_t in[MAILBOX];
	box(in, "000:05020000 018:00001800 054:00010000"); /* no rights */
	put_bits(in, 8, 23, 0, e->q.qpn);
	devx_modify(e->qp, in);
	find_path(p->pd, &path);
	/* They come here, with the bits in opt_param_mask, and the port comes again. */
	box(in, "000:05030000 010:0000000e 020:1e000000 038:000000ff 050:0000c000 054:00010000 0a8:0083e000 "
	        "0ac:0c000000");
	put_bits(in, 8, 23, 0, e->q.qpn);
	put_bits(in, 0x20, 31, 29, port.active_mtu);
	put_bits(in, 0x2c, 23, 0, peer->q.qpn);
	box_path(in, &path);
	devx_modify(e->qp, in);
	box(in, "000:05040000 038:a0000000 088:0087e000");
	put_bits(in, 8, 23, 0, e->q.qpn);
	devx_modify(e->qp, in);
}

static void open_pe(struct pe *p) {
	struct mlx5dv_context_attr attr = {MLX5DV_CONTEXT_FLAGS_DEVX, 0};
	struct ibv_device **list = ibv_get_device_list(NULL);
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                IBV_ACCESS_REMOTE_ATOMIC;
	MUST(list && list[0]);
	MUST((p->context = mlx5dv_open_device(list[0], &attr)));
	ibv_free_device_list(list);
	DO(ibv_query_port(p->context, 1, &port));
	MUST((p->pd = ibv_alloc_pd(p->context)));
	share(p);
	create(p, &p->peer);
	create(p, &p->itself);
	DO(posix_memalign((void **)&p->heap, 4096, HEAP));
	memset(p->heap, 0, HEAP);
	MUST((p->mr = ibv_reg_mr(p->pd, p->heap, HEAP, all | IBV_ACCESS_RELAXED_ORDERING)));
	MUST((p->unused = malloc(sizeof *p->unused)));
	MUST((p->dummy = ibv_reg_mr(p->pd, p->unused, sizeof *p->unused, all)));
}

static void destroy(struct endpoint *e) {
	DO(mlx5dv_devx_obj_destroy(e->qp));
	umem_free(&e->record);
	umem_free(&e->wqes);
	mlx5dv_devx_free_uar(e->uar);
}

static void close_pe(struct pe *p) {
	DO(ibv_dereg_mr(p->mr));
	destroy(&p->peer);
	destroy(&p->itself);
	DO(ibv_dereg_mr(p->dummy));
	DO(ibv_destroy_cq(p->receives));
	DO(ibv_destroy_cq(p->sends));
	DO(ibv_destroy_srq(p->srq));
	DO(ibv_dealloc_pd(p->pd));
	DO(ibv_close_device(p->context));
	free(p->heap);
	free(p->unused);
}

/* Takes a completion, if there is one. */
static void progress(struct pe *p) {
	struct mlx5_cqe64 *cqe = (struct mlx5_cqe64 *)p->cq.buf + p->index % p->cq.cqe_cnt;
	uint8_t own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
	uint32_t word;
	struct endpoint *e;
	if ((own & 1) != p->index / p->cq.cqe_cnt % 2 || own >> 4 == MLX5_CQE_INVALID)
		return;
	if (own >> 4 > MLX5_CQE_RESIZE_CQ)
		FAIL("completion %u: syndrome %#x", p->index, ((struct mlx5_err_cqe *)cqe)->syndrome);
	word = be32toh(cqe->sop_drop_qpn);
	e = (word & 0xffffff) == p->peer.q.qpn ? &p->peer : &p->itself;
	SAME(word & 0xffffff, e->q.qpn);
	/* By the opcode and the length it finds out how many blocks the WQE had. */
	e->tail += word >> 24 == MLX5_OPCODE_ATOMIC_MASKED_CS && be32toh(cqe->byte_cnt) >= 8 ? 2 : 1;
	p->index++;
	__atomic_store_n(p->cq.dbrec, htobe32(p->index % p->cq.cqe_cnt), __ATOMIC_RELEASE);
}

/* Waits until at most so many blocks are out. */
static void poll_for(struct pe *p, struct endpoint *e, uint32_t out) {
	AWAIT((progress(p), e->q.posted - e->tail <= out));
}

static void post(struct endpoint *e, uint32_t blocks) {
	uint32_t first = e->q.posted;
	uint16_t record;
	e->q.posted += blocks;
	record = htobe16((uint16_t)e->q.posted);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n((uint16_t *)(e->q.record + 6), record, __ATOMIC_RELEASE);
	ring_bytes(&e->q, first, e->q.reg);
}

static void rma(struct pe *p, uint32_t opcode, const struct pe *to, uint64_t remote, uint64_t local, uint32_t n) {
	poll_for(p, &p->peer, SIZE - 1);
	move(&p->peer.q, opcode, (uintptr_t)to->heap + remote, to->mr->rkey, (uintptr_t)p->heap + local,
	     p->mr->lkey, n);
	post(&p->peer, 1);
}

/* P, a put of one value, which is in the WQE. */
static void put_value(struct pe *p, const struct pe *to, uint64_t remote, uint64_t value, uint32_t n) {
	struct queue *q = &p->peer.q;
	poll_for(p, &p->peer, SIZE - 1);
	control(q, MLX5_OPCODE_RDMA_WRITE, 3);
	wqe_remote(segment(q, 1), (uintptr_t)to->heap + remote, to->mr->rkey);
	put_bits(segment(q, 2), 0, 31, 0, MLX5_INLINE_SEG | n);
	memcpy(segment(q, 2) + 4, &value, n);
	post(&p->peer, 1);
}

/* Two operations of 8 bytes are not the masked ones. */
static void amo(struct pe *p, const struct pe *to, const struct amo *a, uint32_t n, uint64_t remote, void *old) {
	struct queue *q = &p->peer.q;
	int fetch_add = n == 8 && !strcmp(a->name, "fetch_add"), swap = n == 8 && !strcmp(a->name, "compare_swap");
	int ds = n == 8 && !a->add && !swap ? 5 : 4;
	poll_for(p, &p->peer, SIZE - 2);
	if (fetch_add || swap) {
		control(q, swap ? MLX5_OPCODE_ATOMIC_CS : MLX5_OPCODE_ATOMIC_FA, ds);
		pair64(segment(q, 2), a->value, a->compare);
	} else {
		control(q, amo_opcode(a, n), ds);
		amo_operands(q, 2, a, n);
	}
	wqe_remote(segment(q, 1), (uintptr_t)to->heap + remote, to->mr->rkey);
	wqe_data(segment(q, ds - 1), n, old ? p->mr->lkey : p->dummy->lkey, (uintptr_t)(old ? old : p->unused));
	post(&p->peer, (uint32_t)(ds + 3) / 4);
}

/* Reads of itself, behind which what others have written is visible. */
static void enforce_cst(struct pe *p) {
	move(&p->itself.q, MLX5_OPCODE_RDMA_READ, (uintptr_t)p->unused, p->dummy->rkey, (uintptr_t)p->unused,
	     p->dummy->lkey, 4);
	post(&p->itself, 1);
	poll_for(p, &p->itself, 0);
}

static uint64_t at64(const struct pe *p, uint64_t at) {
	return __atomic_load_n((uint64_t *)(p->heap + at), __ATOMIC_RELAXED);
}

static void operations(struct pe *p, struct pe *to) {
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint32_t n = 1 + (uint32_t)i % 100; /* more than the ring has */
		for (uint64_t k = 0; k < n; k++) {
			memcpy(p->heap + 8 * k, &(uint64_t){i << 8 | k}, 8);
			rma(p, MLX5_OPCODE_RDMA_WRITE, to, 4096 + 8 * k, 8 * k, 8);
		}
		poll_for(p, &p->peer, 0);
		for (uint64_t k = 0; k < n; k++)
			SAME(at64(to, 4096 + 8 * k), i << 8 | k);
		enforce_cst(to);
	}
	for (uint32_t n = 1; n <= 8; n *= 2) {
		memset(to->heap + 8192, 0, 8);
		put_value(p, to, 8192, 0x8877665544332211, n);
		poll_for(p, &p->peer, 0);
		SAME(at64(to, 8192), n == 8 ? 0x8877665544332211 : 0x8877665544332211 & ((1ull << 8 * n) - 1));
	}
	pattern_fill(to->heap + 12288, p->peer.q.qpn, 0, 4000);
	rma(p, MLX5_OPCODE_RDMA_READ, to, 12288, 20480, 4000);
	poll_for(p, &p->peer, 0);
	pattern_check(p->heap + 20480, p->peer.q.qpn, 0, 4000, "read");
	for (uint32_t n = 4; n <= 8; n += 4) {
		uint64_t now = 0;
		memset(to->heap + 16384, 0, 8);
		for (int i = 0; i < 10 * AMOS; i++) {
			const struct amo *a = &amos[i % AMOS];
			void *old = i / AMOS % 2 ? NULL : p->heap + 512;
			snprintf(doing, sizeof doing, "%s of %u bytes", a->name, n);
			memset(p->heap + 512, 0xee, 8);
			amo(p, to, a, n, 16384, old);
			poll_for(p, &p->peer, 0);
			SAME(old ? amo_old(old, n) : now, now);
			now = amo_result(a, now, n);
			SAME(at64(to, 16384), now);
		}
	}
}

int main(void) {
	for (int i = 0; i < PES; i++)
		open_pe(&pes[i]);
	for (int i = 0; i < PES; i++) {
		connect_to(&pes[i], &pes[i].peer, &pes[1 - i].peer);
		connect_to(&pes[i], &pes[i].itself, &pes[i].itself);
	}
	for (int i = 0; i < PES; i++)
		operations(&pes[i], &pes[1 - i]);
	MUST(pes[0].index > 100 * pes[0].cq.cqe_cnt);
	for (int i = 0; i < PES; i++)
		close_pe(&pes[i]);
	printf("ibdevx: puts, gets, values, atomics: ok\n");
	return 0;
}
