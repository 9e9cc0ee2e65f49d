/* compress [DEVICE]: CQs with compressed entries, which are polled without libmlx5, as by a
 * poller that expands sessions itself. The format is that of the vendor's mlx5dv.h and of the
 * Linux driver: an entry of format 3, the title, has the number of completions in byte_cnt.
 * The array of the first eight minis is in the entry after the title, and each later array is
 * eight entries after the one before. Entries of 128 bytes have all this in their second half. */
#include "check.h"

#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <sched.h>

#include "nicless/alloc.h"

enum { DEPTH = 2048, SIZE = 4096, MOST = 64, FORMAT_COMPRESSED = 3, OWNER = 1 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static uint8_t *memory; /* near bytes, then far bytes; SIZE of each */
static struct ibv_mr *mr;

/* struct mlx5_mini_cqe8 of the Linux driver. The first word of a receive's mini is a hash or a
 * checksum, and is 0 here, or a checksum and a stride index, which stands for the wqe_counter. */
struct mini {
	uint16_t wqe_counter;
	uint8_t opcode;
	uint8_t reserved;
	uint32_t byte_cnt;
};

/* A completion queue, and the session that is being expanded. */
struct queue {
	struct ibv_cq *cq;
	struct mlx5dv_cq c;
	int strides; /* minis of receives have stride indices */
	uint32_t ci, left, done;
	struct mlx5_cqe64 title;
	struct mini minis[8];
	unsigned long sessions, compressed, plain;
};

/* A queue pair. sent and received are what it has completed. */
struct end {
	struct queue q;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	uint16_t sent, received;
};

static struct ibv_cq *create_cq(int entries, uint8_t format, int size) {
	struct ibv_cq_init_attr_ex a = {0};
	struct mlx5dv_cq_init_attr m = {0};
	struct ibv_cq_ex *cq;
	a.cqe = (uint32_t)entries;
	m.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
	m.cqe_comp_res_format = format;
	if (size) {
		m.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
		m.cqe_size = (uint16_t)size;
	}
	errno = 0;
	cq = mlx5dv_create_cq(context, &a, &m);
	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

/* The device's capabilities, and requests that are refused. */
static void capabilities(void) {
	struct mlx5dv_context d = {0};
	d.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION;
	DO(mlx5dv_query_device(context, &d));
	MUST(d.comp_mask & MLX5DV_CONTEXT_MASK_CQE_COMPRESION);
	SAME(d.cqe_comp_caps.max_num, MOST);
	SAME(d.cqe_comp_caps.supported_format,
	     MLX5DV_CQE_RES_FORMAT_HASH | MLX5DV_CQE_RES_FORMAT_CSUM | MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX);
	MUST(d.flags & MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP);
	MUST(!create_cq(64, 0, 0));
	SAME(errno, EINVAL);
	/* libmlx5 refuses what the device does not report. */
	MUST(!create_cq(64, MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX << 1, 0));
	SAME(errno, EINVAL);
	/* Two, which the kernel refuses. */
	MUST(!create_cq(64, MLX5DV_CQE_RES_FORMAT_HASH | MLX5DV_CQE_RES_FORMAT_CSUM, 0));
	SAME(errno, EINVAL);
}

static void make(struct end *e, int entries, uint8_t format, int size) {
	struct ibv_qp_init_attr_ex init = {0};
	struct mlx5dv_obj o = {0};
	struct ibv_qp_attr a = {0};
	memset(e, 0, sizeof *e);
	MUST((e->q.cq = create_cq(entries, format, size)));
	o.cq.in = e->q.cq;
	o.cq.out = &e->q.c;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ));
	SAME(e->q.c.cqe_size, size);
	e->q.strides = format == MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX;
	SAME(e->q.c.cqe_cnt, entries + 1);
	init.send_cq = init.recv_cq = e->q.cq;
	/* libmlx5 does not see what is polled here, so its queues must have room for everything. */
	init.cap.max_send_wr = init.cap.max_recv_wr = DEPTH;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	init.qp_type = IBV_QPT_RC;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.pd = pd;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND;
	MUST((e->qp = ibv_create_qp_ex(context, &init)));
	MUST((e->ex = ibv_qp_to_qp_ex(e->qp)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	DO(ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void destroy(struct end *e) {
	DO(ibv_destroy_qp(e->qp));
	DO(ibv_destroy_cq(e->q.cq));
}

static struct mlx5_cqe64 *entry(struct queue *q, uint32_t index) {
	uint8_t *slot = (uint8_t *)q->c.buf + (index & (q->c.cqe_cnt - 1)) * q->c.cqe_size;
	return (struct mlx5_cqe64 *)(slot + q->c.cqe_size - sizeof(struct mlx5_cqe64));
}

static uint8_t owner(const struct queue *q, uint32_t index) { return (index & q->c.cqe_cnt) != 0; }

/* Waits for the next completion and writes it to *w as an entry that is not compressed. */
static void next(struct queue *q, struct mlx5_cqe64 *w) {
	struct mlx5_cqe64 *e = entry(q, q->ci);
	const struct mini *m;
	uint8_t op_own;
	long i;
	if (!q->left) {
		for (i = 0;; i++) {
			op_own = __atomic_load_n(&e->op_own, __ATOMIC_ACQUIRE);
			if (op_own >> 4 != MLX5_CQE_INVALID && (op_own & OWNER) == owner(q, q->ci))
				break;
			if (i > 20 * 1000 * 1000)
				FAIL("entry %u of %u: op_own %#x; nothing comes", q->ci, q->c.cqe_cnt, op_own);
			sched_yield();
		}
		if ((op_own >> 2 & 3) != FORMAT_COMPRESSED) {
			*w = *e;
			q->ci++;
			q->plain++;
			return;
		}
		q->title = *e;
		q->left = be32toh(e->byte_cnt);
		q->done = 0;
		MUST(q->left >= 2 && q->left <= MOST && q->left <= q->c.cqe_cnt);
		q->sessions++;
		q->compressed += q->left;
		memcpy(q->minis, entry(q, q->ci + 1), sizeof q->minis);
	} else if (q->done % 8 == 0) {
		memcpy(q->minis, e, sizeof q->minis); /* array k is 8k entries after the title */
	}
	*w = q->title;
	m = &q->minis[q->done % 8];
	w->byte_cnt = m->byte_cnt;
	w->op_own = (uint8_t)((q->title.op_own & 0xf0) | owner(q, q->ci));
	if (w->op_own >> 4 == MLX5_CQE_REQ) {
		w->wqe_counter = m->wqe_counter;
		w->sop_drop_qpn = htobe32((be32toh(w->sop_drop_qpn) & 0xffffff) | (uint32_t)m->opcode << 24);
	} else {
		w->wqe_counter = htobe16((uint16_t)(be16toh(q->title.wqe_counter) + q->done));
		SAME(m->wqe_counter, 0); /* there are no hashes and checksums */
		SAME(m->opcode << 8 | m->reserved, q->strides ? be16toh(w->wqe_counter) : 0);
	}
	SAME(w->op_own >> 4 == MLX5_CQE_REQ ? m->reserved : 0, 0);
	/* The device has not written this entry, or has written minis into it. Without this store
	 * the poller could take it for an entry of the next lap. */
	e->op_own = owner(q, q->ci);
	q->ci++;
	q->done++;
	q->left--;
}

/* Lets the device reuse what is polled. */
static void consumed(struct queue *q) {
	__atomic_store_n(q->c.dbrec, htobe32(q->ci & 0xffffff), __ATOMIC_RELEASE);
}

enum kind { WRITE, READ, SEND, WR_WRITE, KINDS };

static const char *const names[KINDS] = {"WRITEs", "READs", "SENDs", "WRITEs by ibv_wr_*"};

static uint32_t length_of(enum kind k, int i) {
	return k == WRITE || k == WR_WRITE ? 8 : (uint32_t)(1 + i * 7 % 100);
}

/* Posts n receives, all in one list. */
static void receive(struct end *e, int n) {
	struct ibv_recv_wr wr[MOST] = {{0}}, *bad;
	struct ibv_sge s = {(uintptr_t)(memory + SIZE), SIZE, mr->lkey};
	int i;
	for (i = 0; i < n; i++) {
		wr[i].sg_list = &s;
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	DO(ibv_post_recv(e->qp, wr, &bad));
}

/* Posts n work requests and rings once, so that the device finds all of them together. */
static void post(struct end *e, enum kind k, int n) {
	struct ibv_send_wr wr[MOST] = {{0}}, *bad;
	struct ibv_sge s[MOST];
	int i;
	if (k == WR_WRITE) {
		ibv_wr_start(e->ex);
		for (i = 0; i < n; i++) {
			e->ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(e->ex, mr->rkey, (uintptr_t)(memory + SIZE + 8 * i));
			ibv_wr_set_sge(e->ex, mr->lkey, (uintptr_t)(memory + 8 * i), 8);
		}
		DO(ibv_wr_complete(e->ex));
		return;
	}
	for (i = 0; i < n; i++) {
		s[i].addr = (uintptr_t)(memory + 8 * i);
		s[i].length = length_of(k, i);
		s[i].lkey = mr->lkey;
		wr[i].sg_list = &s[i];
		wr[i].num_sge = 1;
		wr[i].opcode = k == SEND ? IBV_WR_SEND : k == READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].wr.rdma.remote_addr = (uintptr_t)(memory + SIZE + 8 * i);
		wr[i].wr.rdma.rkey = mr->rkey;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	DO(ibv_post_send(e->qp, wr, &bad));
}

static void batch(struct end *a, struct end *b, enum kind k, int n) {
	struct mlx5_cqe64 w;
	unsigned long sessions = a->q.sessions, received = b->q.sessions;
	int i;
	pattern_fill(memory, (uint64_t)a->sent << 3 | k, 0, SIZE);
	if (k == SEND)
		receive(b, n);
	post(a, k, n);
	for (i = 0; i < n; i++) {
		next(&a->q, &w);
		SAME(w.op_own >> 4, MLX5_CQE_REQ);
		SAME(be16toh(w.wqe_counter), a->sent);
		SAME(be32toh(w.sop_drop_qpn), a->qp->qp_num | (k == SEND ? 0x0au : k == READ ? 0x10u : 0x08u) << 24);
		SAME(be32toh(w.byte_cnt), k == READ ? length_of(k, i) : 0);
		a->sent++;
	}
	consumed(&a->q);
	for (i = 0; k == SEND && i < n; i++) {
		next(&b->q, &w);
		SAME(w.op_own >> 4, MLX5_CQE_RESP_SEND);
		SAME(be16toh(w.wqe_counter), b->received);
		SAME(be32toh(w.sop_drop_qpn), b->qp->qp_num);
		SAME(be32toh(w.byte_cnt), length_of(k, i));
		SAME(be32toh(w.flags_rqpn) & 0xffffff, a->qp->qp_num);
		b->received++;
	}
	consumed(&b->q);
	if (k == WRITE || k == WR_WRITE)
		MUST(!memcmp(memory, memory + SIZE, (size_t)(8 * n)));
	/* Each batch has been compressed, at least in part. */
	MUST(a->q.sessions > sessions);
	MUST(k != SEND || b->q.sessions > received);
}

int main(int argc, char **argv) {
	static const uint8_t formats[] = {MLX5DV_CQE_RES_FORMAT_HASH, MLX5DV_CQE_RES_FORMAT_CSUM,
		MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX};
	static const int rings[] = {16, 64, 256}, sizes[] = {64, 128};
	static struct end a, b;
	unsigned long all = 0, compressed = 0;
	size_t f, r, s;
	int n, laps;
	enum kind k;
	/* CQEs with data in them are not compressed, and the messages here are short. */
	setenv("MLX5_SCATTER_TO_CQE", "0", 1);
	context = open_device(argc > 1 ? argv[1] : NULL);
	strcpy(doing, "capabilities");
	capabilities();
	MUST((pd = ibv_alloc_pd(context)));
	MUST((memory = nicless_buffer(2 * SIZE)));
	MUST((mr = ibv_reg_mr(pd, memory, 2 * SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	                      IBV_ACCESS_REMOTE_READ)));
	for (f = 0; f < sizeof formats; f++)
		for (r = 0, s = f % 2; r < sizeof rings / sizeof *rings; r++, s ^= 1) {
			make(&a, rings[r] - 1, formats[f], sizes[s]);
			make(&b, rings[r] - 1, formats[f], sizes[s]);
			connect_with(a.qp, b.qp);
			connect_with(b.qp, a.qp);
			for (n = 16, k = WRITE; a.sent + MOST <= DEPTH; n = n == MOST ? 16 : n + 1, k = (k + 1) % KINDS) {
				int m = n < rings[r] ? n : rings[r];
				snprintf(doing, sizeof doing, "format %d, %d entries of %d bytes, %d %s after %u completions",
				         formats[f], rings[r], sizes[s], m, names[k], a.q.ci);
				batch(&a, &b, k, m);
			}
			laps = (int)(a.q.ci / a.q.c.cqe_cnt);
			MUST(laps >= 7 && b.q.ci > a.q.c.cqe_cnt);
			compressed += a.q.compressed + b.q.compressed;
			all += a.q.compressed + a.q.plain + b.q.compressed + b.q.plain;
			destroy(&a);
			destroy(&b);
		}
	strcpy(doing, "end");
	DO(ibv_dereg_mr(mr));
	nicless_buffer_free(memory);
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	fprintf(stderr, "compress: %lu of %lu completions in sessions\n", compressed, all);
	printf("compress: 3 formats, 3 rings, 2 sizes of entries, 4 kinds of work: ok\n");
	return 0;
}
