/* rdmaxcel: the order in which RDMaxcel (Monarch) registers the segments of a GPU's memory, here of dma-bufs,
 * and its functions, which post to queues that live meanwhile. Each time a segment has grown, the new part is
 * registered from address 0 on, and the list of all parts is bound to the same key, by a queue pair that is
 * connected to itself. The peer writes to old parts while that happens, and afterwards to new ones too, by
 * one key. The program is the same in contexts with DEVX and without. */
#include "buffer.h"
#include "check.h"

#include <infiniband/mlx5dv.h>
#include <nicless/rdmaxcel.h>

#include <sched.h>
#include <time.h>

/* SGES is Monarch's value. A queue pair with fewer has no room for long lists. */
enum { PART = 2 << 20, DEPTH = 64, SGES = 30, SIZE = 4000, BUSY = 32 };

/* A queue pair, with what its poster needs. */
struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct mlx5dv_qp *dv;
	struct mlx5dv_cq *cq;
	uint64_t posted;
	int32_t polled;
};

static const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

static void open_end(struct end *e, struct ibv_context *context, struct ibv_pd *pd, rdma_qp_type_t type) {
	struct ibv_qp_attr a = {0};
	memset(e, 0, sizeof *e);
	e->context = context;
	e->pd = pd;
	MUST((e->qp = create_qp(context, pd, DEPTH, DEPTH, DEPTH, SGES, SGES, type)));
	MUST((e->dv = create_mlx5dv_qp(e->qp)));
	MUST((e->cq = create_mlx5dv_send_cq(e->qp)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = (unsigned)rights;
	DO(ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void close_end(struct end *e) {
	struct ibv_cq *sends = e->qp->send_cq, *receives = e->qp->recv_cq;
	DO(ibv_destroy_qp(e->qp));
	DO(ibv_destroy_cq(sends));
	DO(ibv_destroy_cq(receives));
	free(e->dv);
	free(e->cq);
}

static void post(struct end *e, uint32_t opcode, const void *local, uint32_t lkey, uint64_t remote, uint32_t rkey) {
	wqe_params_t p = {0};
	uint8_t *ring = e->dv->sq.buf;
	p.laddr = (uintptr_t)local;
	p.lkey = lkey;
	p.length = SIZE;
	p.wr_id = e->posted++;
	p.signaled = true;
	p.op_type = opcode;
	p.raddr = remote;
	p.rkey = rkey;
	p.qp_num = e->qp->qp_num;
	p.buf = ring;
	p.dbrec = (uint32_t *)e->dv->dbrec;
	p.wqe_cnt = e->dv->sq.wqe_cnt;
	launch_send_wqe(p);
	launch_db_ring(e->dv->bf.reg, ring + (p.wr_id & (p.wqe_cnt - 1)) * 64);
}

static void drain(struct end *e) {
	time_t end = time(NULL) + 60;
	while ((uint64_t)e->polled < e->posted) {
		cqe_poll_result_t r = launch_cqe_poll(e->cq, e->polled);
		MUST(r != CQE_POLL_ERROR);
		MUST(time(NULL) < end);
		if (r == CQE_POLL_TRUE)
			e->polled++;
		else
			sched_yield();
	}
}

/* A segment, of which all parts are registered. */
struct parts {
	struct buffer b[64];
	struct ibv_mr *mr[64];
	int n;
	struct mlx5dv_mkey *key;
};

/* bind_mrs: the first time it makes the key. */
static void bind_all(struct end *e, struct parts *s, uint32_t most) {
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(e->qp);
	struct mlx5dv_qp_ex *mqpx = mlx5dv_qp_ex_from_ibv_qp_ex(qpx);
	struct ibv_sge list[64];
	struct ibv_wc wc;
	for (int i = 0; i < s->n; i++)
		list[i] = (struct ibv_sge){(uintptr_t)s->mr[i]->addr, (uint32_t)s->mr[i]->length, s->mr[i]->lkey};
	if (!s->key) {
		struct mlx5dv_mkey_init_attr attr = {0};
		attr.pd = e->pd;
		attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
		attr.max_entries = (uint16_t)most;
		MUST((s->key = mlx5dv_create_mkey(&attr)));
	}
	qpx->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
	ibv_wr_start(qpx);
	mlx5dv_wr_mr_list(mqpx, s->key, (uint32_t)rights, (uint16_t)s->n, list);
	DO(ibv_wr_complete(qpx));
	wait_completion(e->qp->send_cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	qpx->wr_id++;
	qpx->wr_flags = 0;
}

/* register_segments: registers what is new. */
static void register_parts(struct end *e, struct parts *s, int grown) {
	struct ibv_device_attr device;
	DO(ibv_query_device(e->context, &device));
	MUST(s->n + grown <= device.max_sge);
	for (; grown > 0; grown--, s->n++) {
		buffer_make(&s->b[s->n], PART);
		MUST((s->mr[s->n] = ibv_reg_dmabuf_mr(e->pd, 0, PART, 0, s->b[s->n].fd, rights)));
	}
	bind_all(e, s, (uint32_t)device.max_sge);
}

int main(void) {
	struct ibv_context *contexts[] = {open_device(NULL), open_device(NULL)};
	struct end loop, peer, owner;
	struct parts s = {0};
	struct ibv_device_attr device;
	struct ibv_pd *pds[2];
	struct ibv_mr *mr;
	uint8_t *mine;
	int rounds = 0;
	for (int i = 0; i < 2; i++)
		MUST((pds[i] = ibv_alloc_pd(contexts[i])));
	open_end(&loop, contexts[0], pds[0], RDMA_QP_TYPE_MLX5DV);
	connect_with(loop.qp, loop.qp);
	open_end(&owner, contexts[0], pds[0], RDMA_QP_TYPE_STANDARD);
	open_end(&peer, contexts[1], pds[1], RDMA_QP_TYPE_STANDARD);
	connect_with(owner.qp, peer.qp);
	connect_with(peer.qp, owner.qp);
	DO(posix_memalign((void **)&mine, 4096, (size_t)PART));
	MUST((mr = ibv_reg_mr(pds[1], mine, PART, rights)));
	DO(ibv_query_device(contexts[0], &device));
	MUST(device.max_sge <= 64);
	register_parts(&loop, &s, 1);
	for (int grown = 1; s.n + grown <= device.max_sge; grown = grown % 3 + 1, rounds++) {
		int old = s.n;
		snprintf(doing, sizeof doing, "%d parts, %d more", old, grown);
		/* The peer is at work while the key is bound anew. */
		for (int i = 0; i < BUSY; i++) {
			pattern_fill(mine + SIZE * i, (uint64_t)(rounds * BUSY + i), 0, SIZE);
			post(&peer, MLX5_OPCODE_RDMA_WRITE, mine + SIZE * i, mr->lkey,
			     (uint64_t)(i % old) * PART + (uint64_t)i * 8192, s.key->rkey);
		}
		register_parts(&loop, &s, grown);
		drain(&peer);
		for (int i = 0; i < BUSY; i++)
			pattern_check(s.b[i % old].at + i * 8192, (uint64_t)(rounds * BUSY + i), 0, SIZE, "an old part");
		/* Each border between parts, also of an old one and a new one, is crossed by one message. */
		for (int i = 1; i < s.n; i++) {
			uint64_t seed = (uint64_t)(rounds * 100 + i);
			pattern_fill(mine, seed, 0, SIZE);
			memset(mine + SIZE, 0, SIZE);
			post(&peer, MLX5_OPCODE_RDMA_WRITE, mine, mr->lkey, (uint64_t)i * PART - SIZE / 2, s.key->rkey);
			post(&peer, MLX5_OPCODE_RDMA_READ, mine + SIZE, mr->lkey, (uint64_t)i * PART - SIZE / 2, s.key->rkey);
			drain(&peer);
			pattern_check(mine + SIZE, seed, 0, SIZE, "read");
			pattern_check(s.b[i - 1].at + PART - SIZE / 2, seed, 0, SIZE / 2, "the end of a part");
			pattern_check(s.b[i].at, seed, SIZE / 2, SIZE / 2, "the beginning of a part");
		}
	}
	close_end(&peer);
	close_end(&owner);
	DO(mlx5dv_destroy_mkey(s.key));
	for (int i = 0; i < s.n; i++) {
		DO(ibv_dereg_mr(s.mr[i]));
		buffer_free(&s.b[i]);
	}
	close_end(&loop);
	DO(ibv_dereg_mr(mr));
	free(mine);
	for (int i = 0; i < 2; i++) {
		DO(ibv_dealloc_pd(pds[i]));
		DO(ibv_close_device(contexts[i]));
	}
	MUST(rounds > 5);
	printf("rdmaxcel: a segment of %d parts, by one key, while its peer writes: ok\n", s.n);
	return 0;
}
