/*
 * RDMaxcel's interface on a GPU. For each WQE the host launches kernels of one thread:
 * one writes the WQE, one rings the doorbell, and one polls for the completion.
 *
 *   nicless engine --socket $XDG_RUNTIME_DIR/nicless.sock &
 *   ./launch $XDG_RUNTIME_DIR/nicless.sock
 */
#include <nicless/nicless_verbs.h>

#include <cuda_runtime.h>

#include <nicless/rdmaxcel.h>

#include "pair.h"

/* Returns the GPU's address of memory of this process that is registered with CUDA. */
template <typename T> static T *device_address(T *at) {
	void *there = 0;
	cudaError_t error = cudaHostGetDevicePointer(&there, (void *)at, 0);
	if (error != cudaSuccess) {
		fprintf(stderr, "launch: error: cudaHostGetDevicePointer: %s\n", cudaGetErrorString(error));
		exit(1);
	}
	return (T *)there;
}

int main(int argc, char **argv) {
	struct nicless_dv_qp dv;
	struct nicless_dv_cq dv_cq;
	wqe_params_t p = {};
	uint64_t *from, *to, i;
	if (argc != 2) {
		fprintf(stderr, "usage: launch SOCKET\n");
		return 2;
	}
	if (connect_queues(argv[1], "cuda launch") != 0) {
		fprintf(stderr, "launch: error: %s\n", engine.error);
		return 1;
	}
	from = (uint64_t *)nicless_take(&memory, 8);
	to = (uint64_t *)nicless_take(&memory, 8);
	nicless_qp_dv(&qp, &dv);
	nicless_cq_dv(&engine, &cq, cqn, &dv_cq);
	if (register_cuda_memory((struct mlx5dv_qp *)&dv, (struct mlx5dv_cq *)&dv_cq,
	                         (struct mlx5dv_cq *)&dv_cq) != cudaSuccess) {
		fprintf(stderr, "launch: error: %s\n", register_cuda_memory_error());
		return 1;
	}
	dv_cq.buf = device_address((uint8_t *)dv_cq.buf);
	dv_cq.dbrec = device_address(dv_cq.dbrec);
	p.buf = device_address((uint8_t *)dv.sq.buf);
	p.dbrec = device_address(dv.dbrec);
	p.wqe_cnt = dv.sq.wqe_cnt;
	p.qp_num = qp.qpn;
	p.laddr = (uintptr_t)from; /* addresses in WQEs are those of this process, not of the GPU */
	p.raddr = (uintptr_t)to;
	p.lkey = p.rkey = key;
	p.length = 8;
	p.op_type = NICLESS_WRITE;
	p.signaled = true;
	for (i = 0; i < 200; i++) {
		cqe_poll_result_t is;
		*from = 1000 + i;
		p.wr_id = i;
		launch_send_wqe(p);
		launch_db_ring(device_address((uint8_t *)dv.bf.reg), p.buf + i % p.wqe_cnt * NICLESS_BLOCK);
		while ((is = launch_send_cqe_poll(&dv_cq, (int32_t)i)) == CQE_POLL_FALSE)
			;
		if (is != CQE_POLL_TRUE || *to != *from) {
			fprintf(stderr, "launch: error: WRITE %llu of 200: poll %d, %llu in place of %llu\n",
			        (unsigned long long)i + 1, is, (unsigned long long)*to, (unsigned long long)*from);
			return 1;
		}
	}
	printf("200 WRITEs, each by three kernels: ok\n");
	nicless_close(&engine);
	return 0;
}
