/*
 * The part of the CUDA runtime's interface that the programs here use. With these
 * declarations clang compiles the programs where CUDA is not installed (`make clang`).
 */
#ifndef NICLESS_STUB_CUDA_RUNTIME_H
#define NICLESS_STUB_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))

struct dim3 {
	unsigned x, y, z;
	__host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

typedef struct stub_stream *cudaStream_t;

extern "C" {
cudaError_t cudaMallocManaged(void **to, size_t bytes, unsigned flags = 1);
/* Clang calls these for <<<>>>, and in the stub of a kernel, if -target-sdk-version is 9.2 or more. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);
}

#if defined(__CUDA_ARCH__)
struct stub_index {
	__attribute__((device)) static unsigned thread() { return __nvvm_read_ptx_sreg_tid_x(); }
	__attribute__((device)) static unsigned block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
	__attribute__((device)) static unsigned size() { return __nvvm_read_ptx_sreg_ntid_x(); }
};
#else
struct stub_index {
	static unsigned thread();
	static unsigned block();
	static unsigned size();
};
#endif

/* threadIdx, blockIdx and so on. The programs use only their field x. */
#define threadIdx (dim3(stub_index::thread()))
#define blockIdx (dim3(stub_index::block()))
#define blockDim (dim3(stub_index::size()))

__device__ inline void __syncwarp(unsigned mask = 0xffffffff) { __nvvm_bar_warp_sync(mask); }
__device__ inline unsigned __shfl_sync(unsigned mask, unsigned v, int from) {
	return (unsigned)__nvvm_shfl_sync_idx_i32(mask, (int)v, from, 0x1f);
}
__device__ inline unsigned atomicAdd(unsigned *p, unsigned v) {
	return __nvvm_atom_add_gen_i((int *)p, (int)v);
}
__device__ inline long long clock64() { return __nvvm_read_ptx_sreg_clock64(); }

#endif
