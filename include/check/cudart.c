/*
 * Calls register_cuda_memory with a CUDA runtime that keeps lists and has no GPU
 * (accel/cuda/stub), and prints which ranges it registers, and its error text when the
 * runtime refuses a range. The addresses are made up.
 */
#include "../../accel/cuda/stub/cudart.c"
#include <stdio.h>

static int refused_at_flags = -1;
static size_t refused_from;

/* Refuses a range that begins at refused_from, and prints the others. */
static cudaError_t watched(void *at, size_t bytes, unsigned flags) {
	cudaError_t error;
	if ((size_t)at == refused_from && (refused_at_flags < 0 || flags == (unsigned)refused_at_flags))
		return stub_end(cudaErrorInvalidValue);
	error = cudaHostRegister(at, bytes, flags);
	if (error == cudaSuccess)
		printf(" %zx+%zx:%u", (size_t)at, bytes, flags);
	return error;
}
#define cudaHostRegister(at, bytes, flags) watched(at, bytes, flags)

#include "../nicless/rdmaxcel_cuda.h"

static void run(const char *name, const struct nicless_dv_qp *qp, const struct nicless_dv_cq *recv,
                const struct nicless_dv_cq *send) {
	cudaError_t error;
	printf("%s:", name);
	error = register_cuda_memory((struct mlx5dv_qp *)(void *)(uintptr_t)qp,
	                             (struct mlx5dv_cq *)(void *)(uintptr_t)recv,
	                             (struct mlx5dv_cq *)(void *)(uintptr_t)send);
	printf(" = %d, left %d%s%s\n", error, stub_last, *register_cuda_memory_error() ? ": " : "",
	       register_cuda_memory_error());
}

int main(void) {
	struct nicless_dv_qp qp;
	struct nicless_dv_cq recv, send;
	memset(&qp, 0, sizeof qp);
	memset(&recv, 0, sizeof recv);
	memset(&send, 0, sizeof send);
	/*
	 * One region holds the receive ring, the send ring, the record and both CQs, some of them in
	 * the same page.
	 */
	qp.rq.buf = (void *)0x100000;
	qp.rq.wqe_cnt = 8;
	qp.rq.stride = 512;
	qp.sq.buf = (void *)0x101000;
	qp.sq.wqe_cnt = 64;
	qp.sq.stride = 64;
	qp.dbrec = (uint32_t *)0x102000;
	recv.buf = (void *)0x102080;
	recv.cqe_cnt = 64;
	recv.cqe_size = 64;
	recv.dbrec = (uint32_t *)0x103080;
	send = recv; /* the same CQ */
	qp.bf.reg = (void *)0x700800;
	qp.bf.size = 256;
	run("one region", &qp, &recv, &send);
	run("again", &qp, &recv, &send);
	stub_count = 0;
	refused_from = 0x700000;
	refused_at_flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
	run("a register of a NIC", &qp, &recv, &send);
	stub_count = 0;
	refused_at_flags = -1;
	run("a register that cannot be", &qp, &recv, &send);
	stub_count = 0;
	refused_from = 0x101000;
	run("a send queue that cannot be", &qp, &recv, &send);
	stub_count = 0;
	refused_from = 0;
	run("the first of two queues", &qp, &recv, &send);
	/*
	 * The second QP of the region: its receive queue begins in the last page of the first one's, its
	 * record is in the same page, and its register in the same page too.
	 */
	qp.rq.buf = (void *)0x103800;
	qp.rq.wqe_cnt = 4;
	qp.sq.buf = (void *)0x104000;
	qp.dbrec = (uint32_t *)0x102040;
	recv.buf = (void *)0x105000;
	qp.bf.reg = (void *)0x700a00;
	run("the second", &qp, &recv, &send);
	/* Between pages that are registered, two runs of pages are new. */
	qp.sq.buf = (void *)0x0ff000;
	qp.sq.wqe_cnt = 0x9000 / 64;
	run("around both", &qp, &recv, &send);
	/* The error names the pages that are new, not the whole queue. */
	stub_count = 0;
	refused_from = 0x103000;
	qp.sq.buf = (void *)0x102800;
	qp.sq.wqe_cnt = 64;
	(void)(cudaHostRegister)((void *)0x102000, 4096, cudaHostRegisterMapped);
	run("a new page that cannot be", &qp, &recv, &send);
	refused_from = 0;
	memset(&qp, 0, sizeof qp);
	memset(&recv, 0, sizeof recv);
	run("nothing", &qp, &recv, &recv);
	return 0;
}
