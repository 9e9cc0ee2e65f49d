/*
 * Kernels that are compiled and not run: one post, and one look at a collapsed CQ. `make count` prints
 * how many of their instructions order memory, and in which scope.
 */
#include <nicless/cq.h>
#include <nicless/post.h>

#include <cuda_runtime.h>

__global__ void post(struct nicless_sq *q, const struct nicless_wr *wr) {
	if (nicless_sq_post(q, wr) == 0)
		nicless_sq_ring(q);
}

__global__ void look(const struct nicless_cq *cq, struct nicless_sq *q) { nicless_cq_advance(cq, q, 0); }
