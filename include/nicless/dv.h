/*
 * Structures that say where the rings, doorbell records and registers of a QP and a
 * CQ are, as mlx5dv_init_obj returns them. The layouts are those of struct
 * mlx5dv_qp and struct mlx5dv_cq of libmlx5 (infiniband/mlx5dv.h). The names
 * differ, so that a program can include both headers. nicless_qp_dv and
 * nicless_cq_dv (nicless_verbs.h) fill these structures for the queues of a nicless
 * client.
 */
#ifndef NICLESS_DV_H
#define NICLESS_DV_H

#include "base.h"

struct nicless_dv_qp { /* mlx5dv_qp */
	uint32_t *dbrec; /* the doorbell record, both words */
	struct {
		void *buf;
		uint32_t wqe_cnt; /* blocks */
		uint32_t stride;  /* bytes of a block: 64 */
	} sq;
	struct {
		void *buf;
		uint32_t wqe_cnt; /* entries */
		uint32_t stride;  /* bytes of an entry */
	} rq;
	struct { /* the doorbell register; size is the size of one half of the register, or 0 if there is none */
		void *reg;
		uint32_t size;
	} bf;
	uint64_t comp_mask;
	int64_t uar_mmap_offset;
	uint32_t tirn;
	uint32_t tisn;
	uint32_t rqn;
	uint32_t sqn;
	uint64_t tir_icm_addr;
};

struct nicless_dv_cq { /* mlx5dv_cq */
	void *buf;
	uint32_t *dbrec;
	uint32_t cqe_cnt;
	uint32_t cqe_size;
	void *cq_uar;
	uint32_t cqn;
	uint64_t comp_mask;
};

#endif
