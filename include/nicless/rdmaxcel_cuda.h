/*
 * RDMaxcel's register_cuda_memory. By cudaHostRegister it gives kernels access to the
 * rings, the doorbell records and the register of a QP and its two CQs. Host code
 * only.
 *
 * It needs the CUDA runtime. nvcc includes the runtime's header by itself. A C or C++
 * program includes <cuda_runtime_api.h> before this header and links with the runtime.
 * In a program without the runtime, register_cuda_memory registers nothing and says
 * so. Such a program posts from the host, which needs no registration.
 */
#ifndef NICLESS_RDMAXCEL_CUDA_H
#define NICLESS_RDMAXCEL_CUDA_H

#include <stdio.h>
#include <string.h>

#include "dv.h"

/* Defined by infiniband/mlx5dv.h. A pointer to a struct of dv.h may be cast to a pointer to one of these. */
struct mlx5dv_qp;
struct mlx5dv_cq;

#if defined(CUDART_VERSION)
typedef cudaError_t nicless_cuda_error;
#else
typedef int nicless_cuda_error; /* a value of cudaError_t */
#endif

enum { NICLESS_CUDA_NOT_SUPPORTED = 801 }; /* cudaErrorNotSupported */

/* Returns the text of the last failure in this source file. Only one thread at a time may use it. */
static inline char *nicless_cuda_text(void) {
	static char text[256];
	return text;
}

/* Returns why register_cuda_memory has failed, in words. The text is empty after success. */
static inline const char *register_cuda_memory_error(void) { return nicless_cuda_text(); }

/* A range of memory and its name in error texts. */
struct nicless_cuda_range {
	const char *name;
	uintptr_t from, to;
};

enum { NICLESS_CUDA_RANGES = 8, NICLESS_CUDA_PAGE = 4096 };

/* Adds a range, in whole pages, to a list that is sorted by address. Empty ranges are left out. */
static inline int nicless_cuda_add(struct nicless_cuda_range *list, int n, const char *name, const void *at,
                                   uint64_t bytes) {
	const uintptr_t mask = NICLESS_CUDA_PAGE - 1;
	uintptr_t from = (uintptr_t)at & ~mask, to = ((uintptr_t)at + (uintptr_t)bytes + mask) & ~mask;
	int i = n;
	if (!at || bytes == 0)
		return n;
	for (; i > 0 && list[i - 1].from > from; i--)
		list[i] = list[i - 1];
	list[i].name = name;
	list[i].from = from;
	list[i].to = to;
	return n + 1;
}

/*
 * Lists the ranges to be registered: whole pages, sorted, without overlaps. Queues of
 * one client share pages, but a page cannot be registered twice, so the ranges must not
 * overlap.
 */
static inline int nicless_cuda_ranges(struct nicless_cuda_range *list, const struct nicless_dv_qp *qp,
                                      const struct nicless_dv_cq *recv, const struct nicless_dv_cq *send) {
	int n = 0, i, last = 0;
	n = nicless_cuda_add(list, n, "send queue", qp->sq.buf, (uint64_t)qp->sq.stride * qp->sq.wqe_cnt);
	n = nicless_cuda_add(list, n, "receive queue", qp->rq.buf, (uint64_t)qp->rq.stride * qp->rq.wqe_cnt);
	n = nicless_cuda_add(list, n, "register", qp->bf.reg, qp->bf.size);
	n = nicless_cuda_add(list, n, "QP's doorbell record", qp->dbrec, 8);
	n = nicless_cuda_add(list, n, "receive CQ", recv->buf, (uint64_t)recv->cqe_size * recv->cqe_cnt);
	n = nicless_cuda_add(list, n, "receive CQ's doorbell record", recv->dbrec, 8);
	n = nicless_cuda_add(list, n, "send CQ", send->buf, (uint64_t)send->cqe_size * send->cqe_cnt);
	n = nicless_cuda_add(list, n, "send CQ's doorbell record", send->dbrec, 8);
	for (i = 1; i < n; i++)
		if (list[i].from < list[last].to) {
			if (list[i].to > list[last].to)
				list[last].to = list[i].to;
		} else
			list[++last] = list[i];
	return n ? last + 1 : 0;
}

#if defined(CUDART_VERSION)

/* Returns whether the page at an address is registered, so that kernels can reach it. */
static inline int nicless_cuda_has(uintptr_t page) {
	void *device;
	return cudaHostGetDevicePointer(&device, (void *)page, 0) == cudaSuccess;
}

/*
 * Registers pages of which none is registered. The register of a nicless device is
 * ordinary memory. The register of a NIC is not: it is registered as I/O memory when
 * the first attempt fails.
 */
static inline nicless_cuda_error nicless_cuda_pages(const struct nicless_cuda_range *r) {
	const unsigned flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
	size_t bytes = (size_t)(r->to - r->from);
	nicless_cuda_error error = cudaHostRegister((void *)r->from, bytes, flags);
	if (error != cudaSuccess && error != cudaErrorHostMemoryAlreadyRegistered && !strcmp(r->name, "register"))
		error = cudaHostRegister((void *)r->from, bytes, flags | cudaHostRegisterIoMemory);
	return error;
}

/*
 * Registers the pages of one range that are new. CUDA refuses a whole range if one of its
 * pages is registered already, for example by the call for another QP of the client. Then
 * each run of pages that are not registered is registered alone. After an error *r is the
 * run that failed.
 */
static inline nicless_cuda_error nicless_cuda_register(struct nicless_cuda_range *r) {
	nicless_cuda_error error = nicless_cuda_pages(r);
	if (error == cudaErrorHostMemoryAlreadyRegistered) {
		const uintptr_t end = r->to;
		uintptr_t at = r->from;
		for (error = cudaSuccess; error == cudaSuccess; at = r->to) {
			while (at < end && nicless_cuda_has(at))
				at += NICLESS_CUDA_PAGE;
			if (at >= end)
				break;
			r->from = at;
			for (r->to = at; r->to < end && !nicless_cuda_has(r->to);)
				r->to += NICLESS_CUDA_PAGE;
			error = nicless_cuda_pages(r);
		}
	}
	(void)cudaGetLastError(); /* so that the next launch does not report this error too */
	return error;
}

#endif

/*
 * Registers the memory of a QP, of its receive CQ and of its send CQ. Returns
 * cudaSuccess, an error of the runtime, or NICLESS_CUDA_NOT_SUPPORTED in a program
 * without CUDA. After an error register_cuda_memory_error says which range failed, and
 * why. Pages that are already registered are no error, and stay as they are: QPs and CQs
 * share pages. Ranges that were registered before a failure stay registered.
 */
static inline nicless_cuda_error register_cuda_memory(struct mlx5dv_qp *dv_qp, struct mlx5dv_cq *dv_recv_cq,
                                                      struct mlx5dv_cq *dv_send_cq) {
	struct nicless_cuda_range list[NICLESS_CUDA_RANGES];
	struct nicless_dv_qp qp;
	struct nicless_dv_cq recv, send;
	int n;
	memcpy(&qp, (const void *)dv_qp, sizeof qp);
	memcpy(&recv, (const void *)dv_recv_cq, sizeof recv);
	memcpy(&send, (const void *)dv_send_cq, sizeof send);
	n = nicless_cuda_ranges(list, &qp, &recv, &send);
	nicless_cuda_text()[0] = 0;
#if defined(CUDART_VERSION)
	{
		nicless_cuda_error error;
		int i;
		for (i = 0; i < n; i++) {
			if ((error = nicless_cuda_register(&list[i])) == cudaSuccess)
				continue;
			snprintf(nicless_cuda_text(), 256, "cannot register %llu bytes at %p (%s) with CUDA: %s",
			         (unsigned long long)(list[i].to - list[i].from), (void *)list[i].from, list[i].name,
			         cudaGetErrorString(error));
			return error;
		}
		return cudaSuccess;
	}
#else
	snprintf(nicless_cuda_text(), 256,
	         "%d ranges are not registered: this program was compiled without CUDA. Include <cuda_runtime_api.h> "
	         "before <nicless/rdmaxcel.h>, or post from the host, which needs no registration",
	         n);
	return NICLESS_CUDA_NOT_SUPPORTED;
#endif
}

#endif
