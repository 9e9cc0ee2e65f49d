/*
 * Checks RDMaxcel's interface: the functions have the types that rdmaxcel.h of
 * RDMaxcel declares, and the parameter structures have its layout. With
 * -DCHECK_MLX5DV, where the header of libmlx5 is installed, it checks that struct
 * nicless_dv_qp and struct nicless_dv_cq have the layout of that header. Without CUDA,
 * register_cuda_memory must say that it has registered nothing.
 */
#ifdef CHECK_MLX5DV
#include <infiniband/mlx5dv.h>
#endif

#include "../nicless/rdmaxcel.h"

/* As declared in rdmaxcel.h of RDMaxcel, except that cudaError_t is a number here. */
void (*db_ring_)(void *dst, void *src) = db_ring;
void (*cu_db_ring_)(void *dst, void *src) = cu_db_ring;
void (*launch_db_ring_)(void *dst, void *src) = launch_db_ring;
cqe_poll_result_t (*launch_cqe_poll_)(void *mlx5dv_cq, int32_t cqe_idx) = launch_cqe_poll;
cqe_poll_result_t (*launch_send_cqe_poll_)(void *mlx5dv_cq, int32_t cqe_idx) = launch_send_cqe_poll;
cqe_poll_result_t (*launch_recv_cqe_poll_)(void *mlx5dv_cq, int32_t cqe_idx) = launch_recv_cqe_poll;
void (*cu_cqe_poll_)(int32_t *result, cqe_poll_params_t params) = cu_cqe_poll;
void (*cqe_poll_)(int32_t *result, cqe_poll_params_t params) = cqe_poll;
void (*send_wqe_)(wqe_params_t params) = send_wqe;
void (*recv_wqe_)(wqe_params_t params) = recv_wqe;
void (*cu_send_wqe_)(wqe_params_t params) = cu_send_wqe;
void (*cu_recv_wqe_)(wqe_params_t params) = cu_recv_wqe;
void (*launch_send_wqe_)(wqe_params_t params) = launch_send_wqe;
void (*launch_recv_wqe_)(wqe_params_t params) = launch_recv_wqe;
nicless_cuda_error (*register_cuda_memory_)(struct mlx5dv_qp *dv_qp, struct mlx5dv_cq *dv_recv_cq,
                                                         struct mlx5dv_cq *dv_send_cq) = register_cuda_memory;

#define AT(type, field, offset) NICLESS_ASSERT(field##_of_##type, offsetof(type, field) == (offset))

AT(wqe_params_t, laddr, 0);
AT(wqe_params_t, lkey, 8);
AT(wqe_params_t, length, 16);
AT(wqe_params_t, wr_id, 24);
AT(wqe_params_t, signaled, 32);
AT(wqe_params_t, op_type, 36);
AT(wqe_params_t, raddr, 40);
AT(wqe_params_t, rkey, 48);
AT(wqe_params_t, qp_num, 52);
AT(wqe_params_t, buf, 56);
AT(wqe_params_t, dbrec, 64);
AT(wqe_params_t, wqe_cnt, 72);
NICLESS_ASSERT(size_of_wqe_params_t, sizeof(wqe_params_t) == 80);
AT(cqe_poll_params_t, cqe_buf, 0);
AT(cqe_poll_params_t, cqe_size, 8);
AT(cqe_poll_params_t, consumer_index, 12);
AT(cqe_poll_params_t, cqe_cnt, 16);
AT(cqe_poll_params_t, dbrec, 24);
NICLESS_ASSERT(size_of_cqe_poll_params_t, sizeof(cqe_poll_params_t) == 32);

#ifdef CHECK_MLX5DV
/* As declared in rdmaxcel.h of RDMaxcel. In C a declaration of another type would be an error. */
static inline struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_pd *pd, int cq_entries,
                                       int max_send_wr, int max_recv_wr, int max_send_sge, int max_recv_sge,
                                       rdma_qp_type_t qp_type);
static inline struct mlx5dv_qp *create_mlx5dv_qp(struct ibv_qp *qp);
static inline struct mlx5dv_cq *create_mlx5dv_cq(struct ibv_qp *qp);
static inline struct mlx5dv_cq *create_mlx5dv_send_cq(struct ibv_qp *qp);
static inline struct mlx5dv_cq *create_mlx5dv_recv_cq(struct ibv_qp *qp);

#define SAME(ours, theirs, field, name) \
	NICLESS_ASSERT(same_##ours##_##name, offsetof(struct ours, field) == offsetof(struct theirs, field))
SAME(nicless_dv_qp, mlx5dv_qp, dbrec, dbrec);
SAME(nicless_dv_qp, mlx5dv_qp, sq.buf, sq_buf);
SAME(nicless_dv_qp, mlx5dv_qp, sq.wqe_cnt, sq_wqe_cnt);
SAME(nicless_dv_qp, mlx5dv_qp, sq.stride, sq_stride);
SAME(nicless_dv_qp, mlx5dv_qp, rq.buf, rq_buf);
SAME(nicless_dv_qp, mlx5dv_qp, rq.wqe_cnt, rq_wqe_cnt);
SAME(nicless_dv_qp, mlx5dv_qp, rq.stride, rq_stride);
SAME(nicless_dv_qp, mlx5dv_qp, bf.reg, bf_reg);
SAME(nicless_dv_qp, mlx5dv_qp, bf.size, bf_size);
SAME(nicless_dv_qp, mlx5dv_qp, comp_mask, comp_mask);
SAME(nicless_dv_qp, mlx5dv_qp, uar_mmap_offset, uar_mmap_offset);
SAME(nicless_dv_qp, mlx5dv_qp, tirn, tirn);
SAME(nicless_dv_qp, mlx5dv_qp, tisn, tisn);
SAME(nicless_dv_qp, mlx5dv_qp, rqn, rqn);
SAME(nicless_dv_qp, mlx5dv_qp, sqn, sqn);
SAME(nicless_dv_qp, mlx5dv_qp, tir_icm_addr, tir_icm_addr);
NICLESS_ASSERT(dv_qp_size, sizeof(struct nicless_dv_qp) == sizeof(struct mlx5dv_qp));
SAME(nicless_dv_cq, mlx5dv_cq, buf, buf);
SAME(nicless_dv_cq, mlx5dv_cq, dbrec, dbrec);
SAME(nicless_dv_cq, mlx5dv_cq, cqe_cnt, cqe_cnt);
SAME(nicless_dv_cq, mlx5dv_cq, cqe_size, cqe_size);
SAME(nicless_dv_cq, mlx5dv_cq, cq_uar, cq_uar);
SAME(nicless_dv_cq, mlx5dv_cq, cqn, cqn);
SAME(nicless_dv_cq, mlx5dv_cq, comp_mask, comp_mask);
NICLESS_ASSERT(dv_cq_size, sizeof(struct nicless_dv_cq) == sizeof(struct mlx5dv_cq));
#endif

int main(void) {
	static struct nicless_dv_qp qp;
	static struct nicless_dv_cq cq;
	static uint64_t memory[8];
	int error;
	qp.sq.buf = memory;
	qp.sq.stride = 64;
	qp.sq.wqe_cnt = 1;
	error = register_cuda_memory_((struct mlx5dv_qp *)(void *)&qp, (struct mlx5dv_cq *)(void *)&cq,
	                              (struct mlx5dv_cq *)(void *)&cq);
	printf("%d %s\n", error, register_cuda_memory_error());
	return 0;
}
