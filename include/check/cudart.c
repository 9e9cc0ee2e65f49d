/*
 * Calls register_cuda_memory with a simulated CUDA runtime, and prints which ranges it
 * registers, and its error text when the runtime refuses a range. The addresses are
 * made up.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDART_VERSION 12000
typedef enum {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorHostMemoryAlreadyRegistered = 712
} cudaError_t;
enum { cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2, cudaHostRegisterIoMemory = 4 };

static size_t registered[16][2];
static int n, refused_at_flags = -1;
static size_t refused_from;
static cudaError_t last;

static cudaError_t cudaHostGetDevicePointer(void **device, void *at, unsigned flags) {
	int i;
	(void)flags;
	for (i = 0; i < n; i++)
		if ((size_t)at >= registered[i][0] && (size_t)at < registered[i][1]) {
			*device = at;
			return cudaSuccess;
		}
	return last = cudaErrorInvalidValue;
}

static cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags) {
	size_t from = (size_t)at;
	int i;
	if (from == refused_from && (refused_at_flags < 0 || flags == (unsigned)refused_at_flags))
		return last = cudaErrorInvalidValue;
	for (i = 0; i < n; i++)
		if (from < registered[i][1] && from + bytes > registered[i][0])
			return last = cudaErrorHostMemoryAlreadyRegistered;
	registered[n][0] = from;
	registered[n++][1] = from + bytes;
	printf(" %zx+%zx:%u", from, bytes, flags);
	return cudaSuccess;
}

static cudaError_t cudaGetLastError(void) {
	cudaError_t was = last;
	last = cudaSuccess;
	return was;
}

static const char *cudaGetErrorString(cudaError_t error) {
	return error == cudaErrorInvalidValue ? "invalid argument" : "?";
}

#include "../nicless/rdmaxcel_cuda.h"

static void run(const char *name, const struct nicless_dv_qp *qp, const struct nicless_dv_cq *recv,
                const struct nicless_dv_cq *send) {
	cudaError_t error;
	printf("%s:", name);
	error = register_cuda_memory((struct mlx5dv_qp *)(void *)(uintptr_t)qp,
	                             (struct mlx5dv_cq *)(void *)(uintptr_t)recv,
	                             (struct mlx5dv_cq *)(void *)(uintptr_t)send);
	printf(" = %d, left %d%s%s\n", error, last, *register_cuda_memory_error() ? ": " : "",
	       register_cuda_memory_error());
}

int main(void) {
	struct nicless_dv_qp qp;
	struct nicless_dv_cq recv, send;
	void *nothing = 0;
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
	n = 0;
	refused_from = 0x700000;
	refused_at_flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
	run("a register of a NIC", &qp, &recv, &send);
	n = 0;
	refused_at_flags = -1;
	run("a register that cannot be", &qp, &recv, &send);
	n = 0;
	refused_from = 0x101000;
	run("a send queue that cannot be", &qp, &recv, &send);
	n = 1; /* only half of the send queue is registered */
	refused_from = 0;
	registered[0][0] = 0x100000;
	registered[0][1] = 0x101000;
	qp.sq.buf = (void *)0x100800;
	run("half of it registered", &qp, &recv, &send);
	memset(&qp, 0, sizeof qp);
	memset(&recv, 0, sizeof recv);
	run("nothing", &qp, &recv, &recv);
	(void)cudaHostGetDevicePointer(&nothing, 0, 0);
	return 0;
}
