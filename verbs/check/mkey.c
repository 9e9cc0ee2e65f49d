/* List keys (Mkeys): keys whose memory is a list of pieces of registered memory. The calls of
 * the first part are those, in their order, with which RDMaxcel binds the segments of a GPU's
 * memory: query_device, create_mkey with 32 entries, wr_mr_list, and again when there are more
 * segments. */
#include "buffer.h"
#include "check.h"

#include <infiniband/mlx5dv.h>

enum { CHUNK = 64 << 10, CHUNKS = 24, DEPTH = 128, LONG = 8 << 20 };

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct mlx5dv_qp_ex *mqpx;
};

static const int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/* Makes a queue pair with every work request that libmlx5 offers for RC. */
static void make_qp(struct side *s) {
	struct ibv_qp_init_attr_ex attr = {0};
	struct mlx5dv_qp_init_attr dv = {0};
	struct ibv_qp_attr a = {0};
	attr.send_cq = attr.recv_cq = s->cq;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = DEPTH;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	attr.cap.max_inline_data = 512;
	attr.qp_type = IBV_QPT_RC;
	attr.pd = s->pd;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
	                      IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV;
	dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
	dv.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
	dv.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED |
	                    MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_RAW_WQE |
	                    MLX5DV_QP_EX_WITH_MEMCPY;
	MUST((s->qp = mlx5dv_create_qp(s->context, &attr, &dv)));
	MUST((s->qpx = ibv_qp_to_qp_ex(s->qp)));
	MUST((s->mqpx = mlx5dv_qp_ex_from_ibv_qp_ex(s->qpx)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = (unsigned)all_access;
	DO(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* Connects the two queue pairs anew; one of them may be in the error state. */
static void connect_pair(struct side *a, struct side *b) {
	if (a->qp) {
		DO(ibv_destroy_qp(a->qp));
		DO(ibv_destroy_qp(b->qp));
	}
	make_qp(a);
	make_qp(b);
	connect_with(a->qp, b->qp);
	connect_with(b->qp, a->qp);
}

static enum ibv_wc_status finish(struct side *s, enum ibv_wc_opcode opcode) {
	struct ibv_wc wc;
	DO(ibv_wr_complete(s->qpx));
	wait_completion(s->cq, &wc);
	if (wc.status == IBV_WC_SUCCESS)
		SAME(wc.opcode, opcode);
	return wc.status;
}

static void begin(struct side *s, unsigned flags) {
	ibv_wr_start(s->qpx);
	s->qpx->wr_id++;
	s->qpx->wr_flags = IBV_SEND_SIGNALED | flags;
}

static enum ibv_wc_status bind_list(struct side *s, struct mlx5dv_mkey *key, unsigned n,
                                    struct ibv_sge *list) {
	begin(s, IBV_SEND_INLINE);
	mlx5dv_wr_mr_list(s->mqpx, key, (uint32_t)all_access, (uint16_t)n, list);
	return finish(s, (enum ibv_wc_opcode)MLX5DV_WC_UMR);
}

static enum ibv_wc_status move(struct side *s, int write, struct ibv_mr *local, size_t at, uint32_t n,
                               uint32_t rkey, uint64_t addr) {
	begin(s, 0);
	if (write)
		ibv_wr_rdma_write(s->qpx, rkey, addr);
	else
		ibv_wr_rdma_read(s->qpx, rkey, addr);
	ibv_wr_set_sge(s->qpx, local->lkey, (uintptr_t)local->addr + at, n);
	return finish(s, write ? IBV_WC_RDMA_WRITE : IBV_WC_RDMA_READ);
}

static struct mlx5dv_mkey *make_key(struct side *s, uint32_t flags, uint16_t entries) {
	struct mlx5dv_mkey_init_attr attr = {0};
	struct mlx5dv_mkey *key;
	attr.pd = s->pd;
	attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | flags;
	attr.max_entries = entries;
	MUST((key = mlx5dv_create_mkey(&attr)));
	MUST(attr.max_entries >= entries);
	return key;
}

static struct ibv_mr *memory_of(struct side *s, size_t n) {
	struct ibv_mr *mr;
	void *at = NULL;
	DO(posix_memalign(&at, 4096, n));
	memset(at, 0, n);
	MUST((mr = ibv_reg_mr(s->pd, at, n, all_access)));
	return mr;
}

static void forget(struct ibv_mr *mr) {
	void *at = mr->addr;
	DO(ibv_dereg_mr(mr));
	free(at);
}

/* A segment of a GPU's memory is registered as a dma-buf, and its addresses begin at 0. */
struct segment {
	struct ibv_mr *mr;
	struct buffer b;
	uint8_t *at;
	uint64_t iova;
};

static struct segment segment_of(struct side *s, int dmabuf) {
	struct segment g = {0};
	if (!dmabuf) {
		g.mr = memory_of(s, CHUNK);
		g.at = g.mr->addr;
		g.iova = (uintptr_t)g.at;
		return g;
	}
	buffer_make(&g.b, CHUNK);
	MUST((g.mr = ibv_reg_dmabuf_mr(s->pd, 0, CHUNK, 0, g.b.fd, all_access)));
	g.at = g.b.at;
	return g;
}

static void segment_forget(struct segment *g) {
	if (!g->b.at) {
		forget(g->mr);
		return;
	}
	DO(ibv_dereg_mr(g->mr));
	buffer_free(&g->b);
}

/* Registers the segments that came up since the last time, and binds all of them to one key. */
static void segments(struct side *a, struct side *b, int dmabuf) {
	struct ibv_device_attr device;
	struct mlx5dv_mkey *key = NULL;
	struct ibv_mr *mine = memory_of(a, CHUNKS * CHUNK);
	struct segment all[CHUNKS];
	struct ibv_sge list[CHUNKS];
	int round, n = 0, i;
	DO(ibv_query_device(b->context, &device));
	MUST(device.max_sge >= CHUNKS);
	for (round = 1; round <= 3; round++) {
		snprintf(doing, sizeof doing, "segments, dma-bufs: %d, round %d", dmabuf, round);
		for (; n < round * CHUNKS / 3; n++)
			all[n] = segment_of(b, dmabuf);
		if (!key)
			key = make_key(b, 0, 32);
		for (i = 0; i < n; i++) /* in another order than that of their addresses */
			list[i] = (struct ibv_sge){all[i * 5 % n].iova, CHUNK, all[i * 5 % n].mr->lkey};
		SAME(bind_list(b, key, (unsigned)n, list), IBV_WC_SUCCESS);
		pattern_fill(mine->addr, (uint64_t)round, 0, (size_t)n * CHUNK);
		SAME(move(a, 1, mine, 0, (uint32_t)n * CHUNK, key->rkey, 0), IBV_WC_SUCCESS);
		for (i = 0; i < n; i++)
			pattern_check(all[i * 5 % n].at, (uint64_t)round, (size_t)i * CHUNK, CHUNK, "segment");
		memset(mine->addr, 0, CHUNKS * CHUNK);
		SAME(move(a, 0, mine, 5, CHUNK + 77, key->rkey, CHUNK - 33), IBV_WC_SUCCESS);
		pattern_check((uint8_t *)mine->addr + 5, (uint64_t)round, CHUNK - 33, CHUNK + 77, "bytes read");
		/* The key is of the list's bytes and no more. */
		SAME(move(a, 1, mine, 0, 2, key->rkey, (uint64_t)n * CHUNK - 1), IBV_WC_REM_ACCESS_ERR);
		connect_pair(a, b);
	}
	DO(mlx5dv_destroy_mkey(key));
	while (n--)
		segment_forget(&all[n]);
	forget(mine);
}

/* The other layouts, and access to them by the local key. */
static void layouts(struct side *a, struct side *b) {
	struct mlx5dv_mkey *key = make_key(b, 0, 4);
	struct ibv_mr *mine = memory_of(a, 4096), *theirs = memory_of(b, 4096);
	struct mlx5dv_mr_interleaved lanes[2] = {{(uintptr_t)theirs->addr, 16, 4, theirs->lkey},
	                                         {(uintptr_t)theirs->addr + 1024, 8, 8, theirs->lkey}};
	struct ibv_sge list[2] = {{(uintptr_t)theirs->addr + 2048, 100, theirs->lkey},
	                          {(uintptr_t)theirs->addr + 3000, 200, theirs->lkey}};
	struct mlx5dv_mkey_conf_attr conf = {0};
	uint8_t *at = theirs->addr;
	size_t i;
	snprintf(doing, sizeof doing, "layouts");
	begin(b, IBV_SEND_INLINE);
	mlx5dv_wr_mr_interleaved(b->mqpx, key, (uint32_t)all_access, 10, 2, lanes);
	SAME(finish(b, (enum ibv_wc_opcode)MLX5DV_WC_UMR), IBV_WC_SUCCESS);
	pattern_fill(mine->addr, 7, 0, 240);
	SAME(move(a, 1, mine, 0, 240, key->rkey, 0), IBV_WC_SUCCESS);
	for (i = 0; i < 10; i++) {
		pattern_check(at + 20 * i, 7, 24 * i, 16, "first lane");
		pattern_check(at + 1024 + 16 * i, 7, 24 * i + 16, 8, "second lane");
		MUST(!at[20 * i + 16] && !at[1024 + 16 * i + 8]);
	}
	begin(b, IBV_SEND_INLINE);
	mlx5dv_wr_mkey_configure(b->mqpx, key, 2, &conf);
	mlx5dv_wr_set_mkey_access_flags(b->mqpx, (uint32_t)all_access);
	mlx5dv_wr_set_mkey_layout_list(b->mqpx, 2, list);
	SAME(finish(b, (enum ibv_wc_opcode)MLX5DV_WC_UMR), IBV_WC_SUCCESS);
	SAME(move(a, 1, mine, 0, 240, key->rkey, 0), IBV_WC_SUCCESS);
	pattern_check(at + 2048, 7, 0, 100, "first piece");
	pattern_check(at + 3000, 7, 100, 140, "second piece");
	/* Its owner copies through it. */
	begin(b, 0);
	mlx5dv_wr_memcpy(b->mqpx, theirs->lkey, (uintptr_t)at + 512, key->lkey, 50, 150);
	SAME(finish(b, (enum ibv_wc_opcode)MLX5DV_WC_MEMCPY), IBV_WC_SUCCESS);
	pattern_check(at + 512, 7, 50, 150, "copy");
	DO(mlx5dv_destroy_mkey(key));
	forget(mine);
	forget(theirs);
}

/* Lists that make no sense, and lists whose memory goes away. */
static void mistakes(struct side *a, struct side *b) {
	struct mlx5dv_mkey *key = make_key(b, 0, 4), *outer = make_key(b, 0, 4);
	struct mlx5dv_mkey_init_attr many = {b->pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, 4000};
	struct ibv_mr *mine = memory_of(a, 4096), *theirs = memory_of(b, 4096);
	uintptr_t at = (uintptr_t)theirs->addr;
	struct ibv_sge twice[2] = {{at, 64, theirs->lkey}, {at + 32, 64, theirs->lkey}};
	struct ibv_sge beyond = {at + 4000, 200, theirs->lkey}, nested = {0, 64, 0}, five[5];
	int i;
	snprintf(doing, sizeof doing, "mistakes");
	pattern_fill(mine->addr, 3, 0, 4096);
	/* Pieces overlap: later bytes of the message replace earlier ones. */
	SAME(bind_list(b, key, 2, twice), IBV_WC_SUCCESS);
	SAME(move(a, 1, mine, 0, 128, key->rkey, 0), IBV_WC_SUCCESS);
	pattern_check(theirs->addr, 3, 0, 32, "the first piece");
	pattern_check((uint8_t *)theirs->addr + 32, 3, 64, 64, "the second piece");
	/* A list of a list. */
	nested.lkey = key->lkey;
	SAME(bind_list(b, outer, 1, &nested), IBV_WC_SUCCESS);
	SAME(move(a, 1, mine, 0, 8, outer->rkey, 0), IBV_WC_REM_ACCESS_ERR);
	connect_pair(a, b);
	/* A piece that is beyond its memory. */
	SAME(bind_list(b, key, 1, &beyond), IBV_WC_SUCCESS);
	SAME(move(a, 1, mine, 0, 8, key->rkey, 0), IBV_WC_REM_ACCESS_ERR);
	connect_pair(a, b);
	/* More pieces than the key has room for. libmlx5 itself refuses that. */
	for (i = 0; i < 5; i++)
		five[i] = twice[0];
	begin(b, IBV_SEND_INLINE);
	mlx5dv_wr_mr_list(b->mqpx, key, (uint32_t)all_access, 5, five);
	MUST(ibv_wr_complete(b->qpx) != 0);
	MUST(!mlx5dv_create_mkey(&many) && errno == EINVAL);
	/* A key without a list gives no access. */
	DO(mlx5dv_destroy_mkey(outer));
	outer = make_key(b, 0, 4);
	SAME(move(a, 1, mine, 0, 8, outer->rkey, 0), IBV_WC_REM_ACCESS_ERR);
	connect_pair(a, b);
	/* The memory is no longer registered. */
	SAME(bind_list(b, key, 2, twice), IBV_WC_SUCCESS);
	forget(theirs);
	SAME(move(a, 1, mine, 0, 128, key->rkey, 0), IBV_WC_REM_ACCESS_ERR);
	connect_pair(a, b);
	DO(mlx5dv_destroy_mkey(key));
	DO(mlx5dv_destroy_mkey(outer));
	forget(mine);
}

/* A list of 2 GiB. libmlx5 before 61 adds up its entries in an int, so that the key would be nearly 2^64
 * bytes long. The device refuses that, and its explanation says so. */
static void too_long(struct side *a, struct side *b) {
	struct mlx5dv_mkey *key = make_key(b, 0, 32);
	struct ibv_mr *theirs = memory_of(b, 64 << 20);
	struct ibv_sge list[32];
	enum ibv_wc_status status;
	int i;
	snprintf(doing, sizeof doing, "a list of 2 GiB");
	for (i = 0; i < 32; i++) {
		list[i].addr = (uintptr_t)theirs->addr;
		list[i].length = 64 << 20;
		list[i].lkey = theirs->lkey;
	}
	status = bind_list(b, key, 32, list);
	MUST(status == IBV_WC_MW_BIND_ERR || status == IBV_WC_SUCCESS);
	printf("mkey: a list of 2 GiB: %s\n", ibv_wc_status_str(status));
	connect_pair(a, b);
	DO(mlx5dv_destroy_mkey(key));
	forget(theirs);
}

/* A peer's send empties a key that allows it, and no other. */
static void invalidate(struct side *a, struct side *b) {
	int allowed;
	for (allowed = 1; allowed >= 0; allowed--) {
		struct mlx5dv_mkey *key = make_key(b, allowed ? MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE : 0, 4);
		struct ibv_mr *mine = memory_of(a, 4096), *theirs = memory_of(b, 4096);
		struct ibv_sge sge = {(uintptr_t)theirs->addr, 64, theirs->lkey};
		struct ibv_recv_wr recv = {1, NULL, &sge, 1}, *bad;
		struct ibv_wc wc;
		snprintf(doing, sizeof doing, "invalidate, allowed: %d", allowed);
		SAME(bind_list(b, key, 1, &sge), IBV_WC_SUCCESS);
		SAME(move(a, 1, mine, 0, 64, key->rkey, 0), IBV_WC_SUCCESS);
		DO(ibv_post_recv(b->qp, &recv, &bad));
		begin(a, 0);
		ibv_wr_send_inv(a->qpx, key->rkey);
		ibv_wr_set_sge(a->qpx, mine->lkey, (uintptr_t)mine->addr, 8);
		if (allowed) {
			SAME(finish(a, IBV_WC_SEND), IBV_WC_SUCCESS);
			wait_completion(b->cq, &wc);
			SAME(wc.status, IBV_WC_SUCCESS);
			SAME(wc.invalidated_rkey, key->rkey);
			SAME(move(a, 1, mine, 0, 64, key->rkey, 0), IBV_WC_REM_ACCESS_ERR);
		} else {
			MUST(finish(a, IBV_WC_SEND) != IBV_WC_SUCCESS);
			wait_completion(b->cq, &wc);
			MUST(wc.status != IBV_WC_SUCCESS);
		}
		connect_pair(a, b);
		DO(mlx5dv_destroy_mkey(key));
		forget(mine);
		forget(theirs);
	}
}

/* A key ends while a long write moves through it. Either the write has succeeded before, or it
 * fails. Nothing is written behind the list, and nothing after the key has ended. */
static void ends(struct side *a, struct side *b) {
	struct ibv_mr *mine = memory_of(a, LONG), *theirs = memory_of(b, LONG + 4096);
	struct ibv_sge list[2] = {{(uintptr_t)theirs->addr + LONG / 2, LONG / 2, theirs->lkey},
	                          {(uintptr_t)theirs->addr, LONG / 2, theirs->lkey}};
	int i, broken = 0;
	size_t n;
	snprintf(doing, sizeof doing, "a key ends in flight");
	memset(mine->addr, 0x11, LONG);
	for (i = 0; i < 20; i++) {
		struct mlx5dv_mkey *key = make_key(b, 0, 4);
		struct ibv_wc wc;
		SAME(bind_list(b, key, 2, list), IBV_WC_SUCCESS);
		begin(a, 0);
		ibv_wr_rdma_write(a->qpx, key->rkey, 0);
		ibv_wr_set_sge(a->qpx, mine->lkey, (uintptr_t)mine->addr, LONG);
		DO(ibv_wr_complete(a->qpx));
		DO(mlx5dv_destroy_mkey(key));
		memset(theirs->addr, 0x22, LONG);
		wait_completion(a->cq, &wc);
		for (n = 0; n < 4096; n++)
			SAME(((uint8_t *)theirs->addr)[LONG + n], 0);
		if (wc.status != IBV_WC_SUCCESS) {
			SAME(wc.status, IBV_WC_REM_ACCESS_ERR);
			broken++;
			connect_pair(a, b);
		}
		for (n = 0; n < LONG; n += 4096)
			SAME(((uint8_t *)theirs->addr)[n], 0x22);
	}
	fprintf(stderr, "mkey: %d of 20 writes were broken off\n", broken);
	forget(mine);
	forget(theirs);
}

int main(void) {
	struct side a = {0}, b;
	MUST((a.context = open_device(NULL)));
	MUST((a.pd = ibv_alloc_pd(a.context)));
	b = a;
	MUST((b.pd = ibv_alloc_pd(b.context)));
	MUST((a.cq = ibv_create_cq(a.context, DEPTH * 2, NULL, NULL, 0)));
	MUST((b.cq = ibv_create_cq(b.context, DEPTH * 2, NULL, NULL, 0)));
	connect_pair(&a, &b);
	segments(&a, &b, 0);
	segments(&a, &b, 1);
	layouts(&a, &b);
	mistakes(&a, &b);
	too_long(&a, &b);
	invalidate(&a, &b);
	ends(&a, &b);
	DO(ibv_destroy_qp(a.qp));
	DO(ibv_destroy_qp(b.qp));
	DO(ibv_destroy_cq(a.cq));
	DO(ibv_destroy_cq(b.cq));
	DO(ibv_dealloc_pd(a.pd));
	DO(ibv_dealloc_pd(b.pd));
	DO(ibv_close_device(a.context));
	printf("mkey: 3 layouts, 9 mistakes: ok\n");
	return 0;
}
