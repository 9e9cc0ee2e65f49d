/*
 * A program for RDMaxcel: queue pairs of libmlx5, to which RDMaxcel's functions post and
 * from which they poll. One queue pair writes 8 bytes into the memory of the other, and
 * 8 more by RDMA WRITE with immediate, which the other one receives. (SEND is not for
 * send_wqe, which gives every WQE a segment with a remote address.)
 *
 *   gcc -std=gnu99 -Iinclude -o /tmp/rdmaxcel examples/rdmaxcel/rdmaxcel.c -lmlx5 -libverbs
 *   nicless run -- /tmp/rdmaxcel
 *
 * nvcc -x cu compiles it for a GPU, where launch_ functions run kernels. With -DHAVE_CUDA
 * it gives the GPU access to the queues, also where a C or C++ compiler compiles it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/mlx5dv.h>
#if defined(HAVE_CUDA) || defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif
#include <nicless/rdmaxcel.h>

#define CHECK(is)                                                   \
	do {                                                            \
		if (!(is)) {                                                \
			fprintf(stderr, "rdmaxcel: error: not true: %s\n", #is); \
			exit(1);                                                \
		}                                                           \
	} while (0)

/* A queue pair, and where its queues are. */
struct end {
	struct ibv_qp *qp;
	struct mlx5dv_qp *dv_qp;
	struct mlx5dv_cq *dv_recv_cq, *dv_send_cq;
	uint64_t sent, received;          /* work requests */
	int32_t send_polled, recv_polled; /* completions */
};

static void open_end(struct end *e, struct ibv_context *context, struct ibv_pd *pd, rdma_qp_type_t type) {
	struct ibv_qp_attr a;
	memset(e, 0, sizeof *e);
	CHECK((e->qp = create_qp(context, pd, 64, 64, 64, 1, 1, type)));
	CHECK((e->dv_qp = create_mlx5dv_qp(e->qp)));
	CHECK((e->dv_recv_cq = create_mlx5dv_recv_cq(e->qp)));
	CHECK((e->dv_send_cq = create_mlx5dv_send_cq(e->qp)));
#if defined(CUDART_VERSION)
	if (register_cuda_memory(e->dv_qp, e->dv_recv_cq, e->dv_send_cq) != cudaSuccess) {
		fprintf(stderr, "rdmaxcel: error: %s\n", register_cuda_memory_error());
		exit(1);
	}
#endif
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	CHECK(!ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void connect_end(struct end *e, const struct end *to) {
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = to->qp->qp_num;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	CHECK(!ibv_query_gid(e->qp->context, 1, 0, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	CHECK(!ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	                                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void post_send(struct end *e, uint32_t opcode, uint64_t *from, uint64_t *to, const struct ibv_mr *mr) {
	wqe_params_t p;
	uint8_t *wqe = (uint8_t *)e->dv_qp->sq.buf + (e->sent & (e->dv_qp->sq.wqe_cnt - 1)) * e->dv_qp->sq.stride;
	memset(&p, 0, sizeof p);
	p.laddr = (uintptr_t)from;
	p.lkey = mr->lkey;
	p.length = 8;
	p.wr_id = e->sent++;
	p.signaled = true;
	p.op_type = opcode;
	p.raddr = (uintptr_t)to;
	p.rkey = mr->rkey;
	p.qp_num = e->qp->qp_num;
	p.buf = (uint8_t *)e->dv_qp->sq.buf;
	p.dbrec = (uint32_t *)e->dv_qp->dbrec;
	p.wqe_cnt = e->dv_qp->sq.wqe_cnt;
	launch_send_wqe(p);
	launch_db_ring(e->dv_qp->bf.reg, wqe);
}

static void post_recv(struct end *e, uint64_t *to, const struct ibv_mr *mr) {
	wqe_params_t p;
	memset(&p, 0, sizeof p);
	p.laddr = (uintptr_t)to;
	p.lkey = mr->lkey;
	p.length = 8;
	p.wr_id = e->received++;
	p.qp_num = e->qp->qp_num;
	p.buf = (uint8_t *)e->dv_qp->rq.buf;
	p.dbrec = (uint32_t *)e->dv_qp->dbrec;
	p.wqe_cnt = e->dv_qp->rq.wqe_cnt;
	CHECK(e->dv_qp->rq.stride == NICLESS_RECV_STRIDE); /* recv_wqe relies on it */
	launch_recv_wqe(p);
}

/* Waits for the next completion of a CQ. */
static void await(struct mlx5dv_cq *cq, int32_t *polled) {
	cqe_poll_result_t r;
	while ((r = launch_cqe_poll(cq, *polled)) == CQE_POLL_FALSE)
		;
	CHECK(r == CQE_POLL_TRUE);
	++*polled;
}

static void close_end(struct end *e) {
	struct ibv_cq *send_cq = e->qp->send_cq, *recv_cq = e->qp->recv_cq;
	CHECK(!ibv_destroy_qp(e->qp) && !ibv_destroy_cq(send_cq) && !ibv_destroy_cq(recv_cq));
	free(e->dv_qp);
	free(e->dv_recv_cq);
	free(e->dv_send_cq);
}

int main(void) {
	static uint64_t memory[1024] __attribute__((aligned(4096)));
	volatile uint64_t *seen = memory;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct end a, b;
	uint64_t i;
	CHECK(list && list[0] && (context = ibv_open_device(list[0])) && (pd = ibv_alloc_pd(context)));
	CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	open_end(&a, context, pd, RDMA_QP_TYPE_MLX5DV);
	open_end(&b, context, pd, RDMA_QP_TYPE_STANDARD);
	connect_end(&a, &b);
	connect_end(&b, &a);
	for (i = 1; i <= 200; i++) { /* more than the rings have entries */
		memory[0] = i << 32;
		memory[1] = ~i;
		post_recv(&b, &memory[514], mr);
		post_send(&a, MLX5_OPCODE_RDMA_WRITE, &memory[0], &memory[512], mr);
		await(a.dv_send_cq, &a.send_polled);
		post_send(&a, MLX5_OPCODE_RDMA_WRITE_IMM, &memory[1], &memory[513], mr);
		await(a.dv_send_cq, &a.send_polled);
		await(b.dv_recv_cq, &b.recv_polled);
		CHECK(seen[512] == i << 32 && seen[513] == ~i);
	}
	close_end(&a);
	close_end(&b);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	ibv_free_device_list(list);
	printf("rdmaxcel: 200 writes, 200 with immediate: ok\n");
	return 0;
}
