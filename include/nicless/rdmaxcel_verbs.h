/*
 * The functions by which RDMaxcel makes a QP of libmlx5 and asks where its queues are,
 * for programs that include <infiniband/mlx5dv.h> before this header, and link with
 * libmlx5 and libibverbs. Such a program is a verbs program: under `nicless run` it runs
 * on a nicless device, and without it on a NIC. In other programs this header is empty.
 *
 *   create_qp                 makes two CQs and an RC QP
 *   create_mlx5dv_qp          returns where the QP's rings, record and register are
 *   create_mlx5dv_recv_cq     returns where the receive CQ's ring and record are
 *   create_mlx5dv_cq          the same as create_mlx5dv_recv_cq
 *   create_mlx5dv_send_cq     returns where the send CQ's ring and record are
 *
 * The caller frees the structures of the create_mlx5dv_ functions by free(). After a
 * failure they return NULL, and errno says why.
 *
 * Different from RDMaxcel:
 *
 *   - Failures print nothing, and leave no CQ behind.
 *   - The entries of the receive queue are at least NICLESS_RECV_STRIDE bytes apart, so
 *     that recv_wqe writes within the queue. With max_recv_sge of RDMaxcel's programs,
 *     30, they are 512 bytes apart in the original too.
 *   - Short messages come to memory, never in the CQE, where cqe_poll would not find
 *     them. In the original a program sets MLX5_SCATTER_TO_CQE=0 for this.
 *   - RDMA_QP_TYPE_EFA is refused with EOPNOTSUPP.
 */
#ifndef NICLESS_RDMAXCEL_VERBS_H
#define NICLESS_RDMAXCEL_VERBS_H

#if defined(_MLX5DV_H_)

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef NICLESS_RECV_STRIDE
#define NICLESS_RECV_STRIDE 512 /* rdmaxcel.h describes it */
#endif

typedef enum {
	RDMA_QP_TYPE_STANDARD = 1, /* by libibverbs */
	RDMA_QP_TYPE_MLX5DV = 2,   /* by libmlx5, and its memory keys may be lists */
	RDMA_QP_TYPE_EFA = 3       /* refused */
} rdma_qp_type_t;

/* Destroys CQs, each of which may be NULL, and leaves errno as it is. Returns NULL. */
static inline struct ibv_qp *nicless_create_qp_failed(struct ibv_cq *send_cq, struct ibv_cq *recv_cq) {
	int error = errno;
	if (send_cq)
		(void)ibv_destroy_cq(send_cq);
	if (recv_cq)
		(void)ibv_destroy_cq(recv_cq);
	errno = error;
	return NULL;
}

/*
 * Makes an RC QP, in state RESET, and a CQ of cq_entries for each of its queues. The
 * caller destroys the QP, and then qp->send_cq and qp->recv_cq. Returns NULL after a
 * failure, with errno: EINVAL for a number below 0 or an unknown type, EOPNOTSUPP for
 * RDMA_QP_TYPE_EFA, or what libibverbs says.
 */
static inline struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_pd *pd, int cq_entries,
                                       int max_send_wr, int max_recv_wr, int max_send_sge, int max_recv_sge,
                                       rdma_qp_type_t qp_type) {
	/* An entry of a receive queue is 16 bytes for each piece of memory, rounded up to a power of two. */
	const int least_sge = NICLESS_RECV_STRIDE / 32 + 1;
	struct ibv_qp_init_attr_ex init;
	struct mlx5dv_qp_init_attr dv;
	struct ibv_qp *qp;
	if ((qp_type != RDMA_QP_TYPE_STANDARD && qp_type != RDMA_QP_TYPE_MLX5DV) || cq_entries < 0 || max_send_wr < 0 ||
	    max_recv_wr < 0 || max_send_sge < 0 || max_recv_sge < 0) {
		errno = qp_type == RDMA_QP_TYPE_EFA ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	memset(&init, 0, sizeof init);
	memset(&dv, 0, sizeof dv);
	init.qp_type = IBV_QPT_RC;
	init.pd = pd;
	init.comp_mask = IBV_QP_INIT_ATTR_PD;
	init.cap.max_send_wr = (uint32_t)max_send_wr;
	init.cap.max_recv_wr = (uint32_t)max_recv_wr;
	init.cap.max_send_sge = (uint32_t)max_send_sge;
	init.cap.max_recv_sge = (uint32_t)(max_recv_sge < least_sge ? least_sge : max_recv_sge);
	dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	dv.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
	if (qp_type == RDMA_QP_TYPE_MLX5DV) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND;
		dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
		dv.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_MR_LIST;
	}
	if (!(init.send_cq = ibv_create_cq(context, cq_entries, NULL, NULL, 0)) ||
	    !(init.recv_cq = ibv_create_cq(context, cq_entries, NULL, NULL, 0)) ||
	    !(qp = mlx5dv_create_qp(context, &init, &dv)))
		return nicless_create_qp_failed(init.send_cq, init.recv_cq);
	return qp;
}

static inline struct mlx5dv_qp *create_mlx5dv_qp(struct ibv_qp *qp) {
	struct mlx5dv_qp *to = (struct mlx5dv_qp *)calloc(1, sizeof *to);
	struct mlx5dv_obj o;
	memset(&o, 0, sizeof o);
	o.qp.in = qp;
	o.qp.out = to;
	if (to && (errno = mlx5dv_init_obj(&o, MLX5DV_OBJ_QP)) != 0) {
		free(to);
		return NULL;
	}
	return to;
}

static inline struct mlx5dv_cq *nicless_mlx5dv_cq(struct ibv_cq *cq) {
	struct mlx5dv_cq *to = (struct mlx5dv_cq *)calloc(1, sizeof *to);
	struct mlx5dv_obj o;
	memset(&o, 0, sizeof o);
	o.cq.in = cq;
	o.cq.out = to;
	if (to && (errno = mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ)) != 0) {
		free(to);
		return NULL;
	}
	return to;
}

static inline struct mlx5dv_cq *create_mlx5dv_cq(struct ibv_qp *qp) { return nicless_mlx5dv_cq(qp->recv_cq); }
static inline struct mlx5dv_cq *create_mlx5dv_send_cq(struct ibv_qp *qp) {
	return nicless_mlx5dv_cq(qp->send_cq);
}
static inline struct mlx5dv_cq *create_mlx5dv_recv_cq(struct ibv_qp *qp) {
	return nicless_mlx5dv_cq(qp->recv_cq);
}

#endif
#endif
