/* Launches, and what kernels say of themselves. */
#include "runtime.h"

#include <string.h>

/* The configurations in <<<>>>, kept until the stub of the kernel asks for them. */
static __thread struct { dim3 grid, block; size_t shared; stream_t stream; } pushed[16];
static __thread int depth;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, stream_t stream) {
	if (depth == 16)
		return 1;
	pushed[depth].grid = grid;
	pushed[depth].block = block;
	pushed[depth].shared = shared;
	pushed[depth++].stream = stream;
	return 0;
}

API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, stream_t *stream) {
	if (depth == 0)
		return note(INVALID_VALUE);
	depth--;
	*grid = pushed[depth].grid;
	*block = pushed[depth].block;
	*shared = pushed[depth].shared;
	*stream = pushed[depth].stream;
	return OK;
}

static int launch(void *stub, dim3 grid, dim3 block, void **args, size_t shared, stream_t stream,
                  int cooperative) {
	struct gpu_launch l = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, args, NULL, 0,
	                       cooperative};
	return gpu_launch(current, stream, own(stub), &l);
}

API cudaError_t cudaLaunchKernel(void *stub, dim3 grid, dim3 block, void **args, size_t shared,
                                 stream_t stream) {
	return DO(launch(stub, grid, block, args, shared, stream, 0));
}

API cudaError_t cudaLaunchCooperativeKernel(void *stub, dim3 grid, dim3 block, void **args, size_t shared,
                                            stream_t stream) {
	return DO(launch(stub, grid, block, args, shared, stream, 1));
}

/* struct cudaLaunchConfig_t. Of the attributes only cooperative launches (2) change something here. */
struct config {
	dim3 grid, block;
	size_t shared;
	stream_t stream;
	struct { int id; char pad[4]; int value; char rest[60]; } *attributes;
	unsigned n;
};

API cudaError_t cudaLaunchKernelExC(const struct config *c, void *stub, void **args) {
	int cooperative = 0;
	for (unsigned k = 0; k < c->n; k++)
		if (c->attributes[k].id == 2)
			cooperative = c->attributes[k].value != 0;
	return DO(launch(stub, c->grid, c->block, args, c->shared, c->stream, cooperative));
}

/* struct cudaFuncAttributes. */
struct function {
	size_t shared, constant, local;
	int threads, registers, ptx, binary, cache_mode, dynamic_shared, carveout;
};

static int describe_function(struct function *f, void *stub) {
	struct gpu_attributes a;
	int error = gpu_function_attributes(current, own(stub), &a);
	if (error)
		return error;
	memset(f, 0, sizeof *f);
	f->shared = a.shared;
	f->local = a.local;
	f->threads = a.threads;
	f->registers = 32;
	f->ptx = f->binary = 90;
	f->dynamic_shared = (int)a.dynamic;
	return OK;
}

API cudaError_t cudaFuncGetAttributes(struct function *f, void *stub) {
	return DO(describe_function(f, stub));
}

API cudaError_t cudaFuncSetAttribute(void *stub, int number, int value) {
	return DO(gpu_set_function_attribute(current, own(stub), number, value));
}

API cudaError_t cudaFuncSetCacheConfig(void *stub, int config) { (void)stub; (void)config; return DO(OK); }
API cudaError_t cudaFuncSetSharedMemConfig(void *stub, int config) {
	(void)stub; (void)config;
	return DO(OK);
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, void *stub, int block,
                                                                       size_t shared, unsigned flags) {
	(void)flags;
	return DO(gpu_occupancy(n, current, own(stub), block, shared));
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *stub, int block, size_t shared) {
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, stub, block, shared, 0);
}
