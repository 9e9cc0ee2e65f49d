/* doca: the order in which DOCA GPUNetIO (NCCL GIN, torchcomms) calls libmlx5, and the way in which its
 * kernels post and poll.
 *
 *   doca            queues with records, and one without
 *   doca dedicated  and more without, on different UAR pages (libmlx5 of rdma-core 45 or newer)
 *
 * Each queue and each record has a umem of its own. Kernels ring the register, store the record, and ring
 * again. With core direct, a companion queue waits for completions of its main queue and counts them. */
#include "library.h"

enum { LOG = 7, SIZE = 1 << LOG, MEMORY = 65536, ROUNDS = 1000 };

enum handler {
	SM_DB,    /* the producer index into a register of a page of type NC */
	SM_BF,    /* 64 bytes of the last WQE into a register of type BF */
	SM_NO_DBR /* the producer index at page + 0x600, and no record */
};

struct doca {
	struct queue q;
	enum handler handler;
	int collapsed;
	uint32_t taken; /* completions */
	struct umem cqes, cq_record, wqes, record;
	struct mlx5dv_devx_uar *cq_uar, *uar;
	struct mlx5dv_devx_obj *cq, *qp;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static uint8_t *memory; /* its address for the device is 0 */
static struct path path;

/* UARs on pages on which a queue without a record rings already: libmlx5 gives one page to four objects. */
static struct mlx5dv_devx_uar *parked[64];
static size_t parking;
static uint32_t rung[8]; /* pages */
static const uint32_t none = 0xffffffff;

static int rings(uint32_t page) {
	for (size_t i = 0; i < sizeof rung / sizeof *rung; i++)
		if (rung[i] == page)
			return 1;
	return 0;
}

static void replace(uint32_t page, uint32_t by) {
	for (size_t i = 0; i < sizeof rung / sizeof *rung; i++)
		if (rung[i] == page) {
			rung[i] = by;
			return;
		}
	FAIL("no place for page %#x", page);
}

/* Each queue has a UAR of its own, as far as libmlx5 has them. */
static struct mlx5dv_devx_uar *uar_for(enum handler handler) {
	struct mlx5dv_devx_uar *uar;
	if (handler == SM_BF) {
		MUST((uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF)));
		return uar;
	}
	while ((uar = mlx5dv_devx_alloc_uar(context, NC_DEDICATED)) && handler == SM_NO_DBR && rings(uar->page_id)) {
		MUST(parking < sizeof parked / sizeof *parked);
		parked[parking++] = uar;
	}
	if (!uar)
		MUST((uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC)));
	if (handler == SM_NO_DBR)
		replace(none, uar->page_id);
	return uar;
}

/* Before it creates a queue, the library asks what the device can do. */
static void probe(void) {
	struct ibv_device_attr attr;
	uint8_t out[CAPS];
	DO(ibv_query_device(context, &attr));
	query_caps(context, 0, out);
	SAME(get_bits(out + CAP, 0x44, 0, 0), 1);           /* rc */
	MUST(get_bits(out + CAP, 0x50, 15, 0) > 0);         /* max_wqe_sz_sq, by which it divides */
	MUST(get_bits(out + CAP, 0x10, 23, 16) >= LOG);     /* log_max_qp_sz */
	SAME(get_bits(out + CAP, 0x04, 31, 31), 1);         /* hca_cap_2: group 0x20 is there */
	query_caps(context, 4, out);
	MUST(get_bits(out + CAP, 0x18, 15, 0) >= 0xc000);   /* UDP ports */
	MUST(get_bits(out + CAP, 0x18, 31, 16) > get_bits(out + CAP, 0x18, 15, 0));
	query_caps(context, 0x20, out);
	SAME(get_bits(out + CAP, 0x5c, 30, 30), 0);         /* send_dbr_mode_no_dbr_ext */
}

static uint32_t state_of(struct doca *d) {
	uint8_t in[MAILBOX], out[MAILBOX] = {0};
	uint64_t mtu;
	box(in, "000:050b0000");
	put_bits(in, 8, 23, 0, d->q.qpn);
	DO(mlx5dv_devx_obj_query(d->qp, in, 16, out, sizeof out));
	mtu = get_bits(out, 0x20, 31, 29);
	MUST(mtu >= 1 && mtu <= 5); /* 0 is "unexpected" to the library, in RST too */
	return (uint32_t)get_bits(out, 0x18, 31, 28);
}

static void create(struct doca *d, enum handler handler, int collapsed, int core_direct) {
	uint8_t in[MAILBOX];
	uint32_t eqn;
	memset(d, 0, sizeof *d);
	d->handler = handler;
	d->collapsed = collapsed;
	d->q.log_wqes = d->q.log_cqes = LOG;
	d->uar = uar_for(handler);
	d->cqes = umem_with(context, SIZE * 64, 0, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < SIZE; i++)
		d->cqes.at[i * 64 + 63] = 0xf1; /* an invalid opcode, and owner 1 */
	d->cq_record = umem_with(context, 4096, 0, IBV_ACCESS_LOCAL_WRITE);
	probe();
	MUST((d->cq_uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC)));
	DO(mlx5dv_devx_query_eqn(context, 0, &eqn));
	box(in, "000:04000000 010:02020000 05c:80000000");
	put_bits(in, 0x10, 20, 20, (uint64_t)collapsed);
	put_bits(in, 0x14, 31, 0, d->cq_record.umem->umem_id);
	put_bits(in, 0x1c, 28, 24, LOG);
	put_bits(in, 0x1c, 23, 0, d->cq_uar->page_id);
	put_bits(in, 0x24, 7, 0, eqn);
	put_bits(in, 0x58, 31, 0, d->cqes.umem->umem_id);
	d->cq = make(context, in, &d->q.cqn);

	d->wqes = umem_with(context, SIZE * 64, 0, IBV_ACCESS_LOCAL_WRITE);
	d->record = umem_with(context, 4096, 0, IBV_ACCESS_LOCAL_WRITE);
	probe();
	box(in, "000:05000000 020:00003800 0c4:03000000 0e8:10000000 10c:80000000");
	put_bits(in, 0x1c, 23, 0, pd_number(pd));
	put_bits(in, 0x24, 23, 0, d->uar->page_id);
	put_bits(in, 0x28, 31, 30, handler == SM_NO_DBR);
	put_bits(in, 0x94, 23, 0, d->q.cqn);
	put_bits(in, 0xa8, 0, 0, (uint64_t)core_direct); /* cd_master */
	put_bits(in, 0xfc, 31, 0, d->record.umem->umem_id);
	put_bits(in, 0x108, 31, 0, d->wqes.umem->umem_id);
	d->qp = make(context, in, &d->q.qpn);
	d->q.wqes = d->wqes.at;
	d->q.cqes = d->cqes.at;
	d->q.record = d->record.at;
	d->q.reg = handler == SM_NO_DBR ? (uint8_t *)d->uar->base_addr + 0x600 : d->uar->reg_addr;
	SAME(state_of(d), 0);
}

static void destroy(struct doca *d) {
	DO(mlx5dv_devx_obj_destroy(d->qp));
	umem_free(&d->wqes);
	umem_free(&d->record);
	if (d->handler == SM_NO_DBR)
		replace(d->uar->page_id, none);
	mlx5dv_devx_free_uar(d->uar);
	DO(mlx5dv_devx_obj_destroy(d->cq));
	mlx5dv_devx_free_uar(d->cq_uar);
	umem_free(&d->cqes);
	umem_free(&d->cq_record);
}

static void connect_to(struct doca *d, const struct doca *peer) {
	uint8_t in[MAILBOX], out[48] = {0};
	box(in, "000:05020000 018:00001800 054:00010000 0a8:0001e000");
	put_bits(in, 8, 23, 0, d->q.qpn);
	devx_modify(d->qp, in);
	SAME(state_of(d), 1);
	find_path(pd, &path);
	if (!path.lid) {
		box(in, "000:07600000");
		put_bits(in, 8, 31, 16, path.index);
		DO(mlx5dv_devx_general_cmd(context, in, 16, out, sizeof out));
		DO(memcmp(out + 0x10, path.gid.raw, 16));
		SAME(out[0x2b], 2); /* RoCE v2 */
	}
	/* The port is 0 here, and no bit of opt_param_mask lets the rights count again. */
	box(in, "000:05030000 020:be000000 038:000000ff 050:0000d16e 0a8:00816000 0ac:0c000000");
	put_bits(in, 8, 23, 0, d->q.qpn);
	put_bits(in, 0x2c, 23, 0, peer->q.qpn);
	box_path(in, &path);
	devx_modify(d->qp, in);
	SAME(state_of(d), 2);
	box(in, "000:05040000 038:a0000000 088:0087e000 0a8:00016000");
	put_bits(in, 8, 23, 0, d->q.qpn);
	devx_modify(d->qp, in);
	SAME(state_of(d), 3);
}

/* Posts. Addresses are those of the device. */
static void transfer(struct doca *d, uint32_t opcode, uint64_t remote, uint64_t local, uint32_t length) {
	move(&d->q, opcode, remote, mr->rkey, local, mr->lkey, length);
	d->q.posted++;
}

static void add(struct doca *d, uint32_t opcode, uint64_t remote, uint64_t local, uint64_t value) {
	control(&d->q, opcode, 4);
	wqe_remote(segment(&d->q, 1), remote, mr->rkey);
	pair64(segment(&d->q, 2), value, 0);
	wqe_data(segment(&d->q, 3), 8, mr->lkey, local);
	d->q.posted++;
}

static void wait_for(struct doca *d, const struct doca *other, uint32_t completion) {
	control(&d->q, 0x0f, 2);
	put_bits(segment(&d->q, 1), 8, 31, 0, completion);
	put_bits(segment(&d->q, 1), 12, 31, 0, other->q.cqn);
	d->q.posted++;
}

static void announce(struct doca *d) {
	__atomic_thread_fence(__ATOMIC_RELEASE);
	ring_index(&d->q, d->q.reg);
	if (d->handler == SM_NO_DBR)
		return;
	__atomic_store_n((uint32_t *)(d->q.record + 4), htobe32(d->q.posted & 0xffff), __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (d->handler == SM_BF) {
		uint64_t wqe[8];
		memcpy(wqe, d->q.wqes + ((d->q.posted - 1) % SIZE) * 64, 64);
		for (int i = 0; i < 8; i++)
			__atomic_store_n((uint64_t *)d->q.reg + i, wqe[i], __ATOMIC_RELAXED);
		return;
	}
	ring_index(&d->q, d->q.reg);
}

/* Waits for the completions of all that is posted, each WQE of one block, and returns the last one. In a CQ
 * that is not collapsed, only op_own tells when an entry is there. */
static struct mlx5_err_cqe *drain(struct doca *d) {
	uint32_t entry = 0, word;
	if (d->collapsed) {
		AWAIT((word = last_word(&d->q, 0)) >> 16 == ((d->q.posted - 1) & 0xffff) && (word & 0xff) >> 4 != 15);
		d->taken = d->q.posted;
	}
	for (; d->taken < d->q.posted; d->taken++) {
		entry = d->taken % SIZE;
		AWAIT(((word = last_word(&d->q, entry)) & 1) == (d->taken / SIZE & 1) && (word & 0xff) >> 4 != 15);
		SAME(word >> 16, d->taken & 0xffff);
	}
	return (struct mlx5_err_cqe *)(d->q.cqes + (size_t)entry * 64);
}

static void completes(struct doca *d) {
	announce(d);
	SAME(drain(d)->op_own >> 4, MLX5_CQE_REQ);
}

static uint64_t at64(uint64_t at) { return __atomic_load_n((uint64_t *)(memory + at), __ATOMIC_RELAXED); }

/* Every operation that the kernels post, and batches. */
static void operations(struct doca *d, uint64_t seed) {
	pattern_fill(memory, seed, 0, 1000);
	transfer(d, MLX5_OPCODE_RDMA_WRITE, 4096, 0, 1000);
	completes(d);
	pattern_check(memory + 4096, seed, 0, 1000, "written");
	transfer(d, MLX5_OPCODE_RDMA_READ, 4096, 8192, 1000);
	completes(d);
	pattern_check(memory + 8192, seed, 0, 1000, "read");
	memcpy(memory + 12288, &(uint64_t){40}, 8);
	add(d, MLX5_OPCODE_ATOMIC_FA, 12288, 12296, 2);
	completes(d);
	SAME(at64(12296), 40);
	add(d, MLX5_OPCODE_ATOMIC_MASKED_FA | 9u << 24, 12288, 12296, 8); /* 8 bytes */
	completes(d);
	SAME(at64(12296), 42);
	SAME(at64(12288), 50);
	control(&d->q, MLX5_OPCODE_NOP, 1);
	d->q.posted++;
	completes(d);
	control(&d->q, 0x23, 2); /* DUMP: earlier READs are visible behind it */
	wqe_data(segment(&d->q, 1), 8, mr->lkey, 0);
	d->q.posted++;
	completes(d);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		for (uint32_t n = 0; n <= i % 16; n++) {
			memcpy(memory + 8 * n, &(uint64_t){(uint64_t)i << 8 | n}, 8);
			transfer(d, MLX5_OPCODE_RDMA_WRITE, 4096 + 8 * n, 8 * n, 8);
		}
		completes(d);
		for (uint32_t n = 0; n <= i % 16; n++)
			SAME(at64(4096 + 8 * n), (uint64_t)i << 8 | n);
	}
}

/* Two queues ring in turn before either is polled. */
static void in_turn(struct doca *a, struct doca *b) {
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		memcpy(memory, &i, 8);
		transfer(a, MLX5_OPCODE_RDMA_WRITE, 4096, 0, 8);
		transfer(b, MLX5_OPCODE_RDMA_WRITE, 4104, 0, 8);
		announce(a);
		announce(b);
		SAME(drain(a)->op_own >> 4, MLX5_CQE_REQ);
		SAME(drain(b)->op_own >> 4, MLX5_CQE_REQ);
		SAME(at64(4096), i);
		SAME(at64(4104), i);
	}
}

/* The companion, connected to itself, adds to a counter after each put of its main queue, of one WQE or two.
 * The WAIT names the index of the last one, which is that of its completion. */
static void counts(struct doca *companion, struct doca *main) {
	memset(memory + 12288, 0, 16);
	for (uint64_t i = 1; i <= 100; i++) {
		uint32_t more = (uint32_t)i % 2;
		wait_for(companion, main, main->q.posted + more);
		add(companion, MLX5_OPCODE_ATOMIC_FA, 12288, 12296, 1);
		announce(companion);
		SAME(at64(12288), i - 1); /* nothing of the put has completed in the main queue */
		transfer(main, MLX5_OPCODE_RDMA_WRITE, 4096, 0, 8);
		if (more)
			transfer(main, MLX5_OPCODE_RDMA_WRITE, 4104, 8, 8);
		announce(main);
		SAME(drain(companion)->op_own >> 4, MLX5_CQE_REQ);
		SAME(drain(main)->op_own >> 4, MLX5_CQE_REQ);
		SAME(at64(12288), i);
	}
}

/* A key that is none. The library finds the error by QUERY_QP and in the CQE. */
static void fails(struct doca *d) {
	struct mlx5_err_cqe *e;
	move(&d->q, MLX5_OPCODE_RDMA_WRITE, 0, 0x12345678, 0, mr->lkey, 8);
	d->q.posted++;
	announce(d);
	e = drain(d);
	SAME(e->op_own >> 4, MLX5_CQE_REQ_ERR);
	SAME(e->syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	SAME(state_of(d), 6);
}

static void pair(const char *what, enum handler handler, int collapsed) {
	struct doca a, b;
	snprintf(doing, sizeof doing, "%s", what);
	create(&a, handler, collapsed, 0);
	create(&b, handler, collapsed, 0);
	connect_to(&a, &b);
	connect_to(&b, &a);
	operations(&a, 1);
	operations(&b, 2);
	in_turn(&a, &b);
	fails(&a);
	destroy(&a);
	destroy(&b);
}

static void group(const char *what, enum handler handler, int collapsed) {
	struct doca main[2], companion[2];
	snprintf(doing, sizeof doing, "%s", what);
	for (int i = 0; i < 2; i++) {
		create(&main[i], handler, collapsed, 0);
		create(&companion[i], handler, collapsed, 1);
	}
	for (int i = 0; i < 2; i++) {
		connect_to(&main[i], &main[1 - i]);
		connect_to(&companion[i], &companion[i]);
	}
	for (int i = 0; i < 2; i++) {
		operations(&companion[i], 3);
		counts(&companion[i], &main[i]);
	}
	for (int i = 0; i < 2; i++) {
		destroy(&main[i]);
		destroy(&companion[i]);
	}
}

/* On one page, only one queue can be without a record. */
static void alone(void) {
	struct doca a;
	uint8_t in[MAILBOX], out[16] = {0};
	snprintf(doing, sizeof doing, "a queue without a record");
	create(&a, SM_NO_DBR, 0, 0);
	connect_to(&a, &a);
	operations(&a, 4);
	box(in, "000:05000000 020:00003800 028:40000000 0c4:03000000 0e8:10000000 10c:80000000");
	put_bits(in, 0x1c, 23, 0, pd_number(pd));
	put_bits(in, 0x24, 23, 0, a.uar->page_id);
	put_bits(in, 0x94, 23, 0, a.q.cqn);
	put_bits(in, 0xfc, 31, 0, a.record.umem->umem_id);
	put_bits(in, 0x108, 31, 0, a.wqes.umem->umem_id);
	MUST(!mlx5dv_devx_obj_create(context, in, MAILBOX, out, sizeof out));
	SAME(errno, EREMOTEIO);
	SAME(out[0], 6); /* busy */
	operations(&a, 5);
	destroy(&a);
}

int main(int argc, char **argv) {
	int dedicated = argc > 1 && !strcmp(argv[1], "dedicated");
	struct mlx5dv_devx_uar *uar;
	context = open_device(NULL); /* NCCL opens it as any device */
	MUST(mlx5dv_is_supported(context->device));
	MUST((pd = ibv_alloc_pd(context)));
	MUST(!ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0) && errno != EBADF); /* so there are no dma-bufs */
	DO(posix_memalign((void **)&memory, 4096, MEMORY));
	memset(memory, 0, MEMORY);
	MUST((mr = ibv_reg_mr_iova2(pd, memory, MEMORY, 0,
	                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                                IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)));
	memset(rung, 0xff, sizeof rung);
	pair("registers", SM_DB, 0);
	pair("registers, collapsed", SM_DB, 1);
	pair("BlueFlame registers", SM_BF, 0);
	group("group", SM_DB, 0);
	group("group, collapsed", SM_DB, 1);
	uar = mlx5dv_devx_alloc_uar(context, NC_DEDICATED);
	SAME(uar != NULL, dedicated);
	if (dedicated) {
		mlx5dv_devx_free_uar(uar);
		pair("no records", SM_NO_DBR, 0);
		pair("no records, collapsed", SM_NO_DBR, 1);
		group("group without records", SM_NO_DBR, 0);
	}
	alone();
	while (parking > 0)
		mlx5dv_devx_free_uar(parked[--parking]);
	DO(ibv_dereg_mr(mr));
	free(memory);
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("doca: pairs, groups, %s: ok\n", dedicated ? "no records on several pages" : "no record");
	return 0;
}
