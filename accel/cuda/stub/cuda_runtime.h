/*
 * The part of the CUDA runtime's interface that the programs here use. With these
 * declarations clang can compile the programs where CUDA is not installed (`make
 * check-syntax`). The functions here cannot be linked or run.
 */
#ifndef NICLESS_STUB_CUDA_RUNTIME_H
#define NICLESS_STUB_CUDA_RUNTIME_H

#include <stddef.h>

#define CUDART_VERSION 11000

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))

struct dim3 {
	unsigned x, y, z;
	__host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

typedef int cudaError_t;
typedef struct stub_stream *cudaStream_t;
enum { cudaSuccess = 0, cudaErrorHostMemoryAlreadyRegistered = 712 };
enum { cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2, cudaHostRegisterIoMemory = 4 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

struct cudaDeviceProp {
	char name[256];
	int major, minor, multiProcessorCount;
};

extern "C" {
cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags);
cudaError_t cudaHostGetDevicePointer(void **to, void *at, unsigned flags);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMalloc(void **to, size_t bytes);
cudaError_t cudaMallocManaged(void **to, size_t bytes, unsigned flags = 1);
cudaError_t cudaMemset(void *at, int value, size_t bytes);
cudaError_t cudaFree(void *at);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
const char *cudaGetErrorString(cudaError_t error);
/* The function that clang calls for <<<>>> if it finds no version of CUDA. */
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
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
