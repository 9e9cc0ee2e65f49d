/*
 * The part of the CUDA runtime's interface that host code here uses, for C and C++, as CUDA
 * 11 has it. With these declarations programs compile where CUDA is not installed, and run
 * with the libraries of nicless run --gpu. cudart.c has the functions by which a program
 * registers host memory and allocates GPU memory, for programs without kernels.
 */
#ifndef NICLESS_STUB_CUDA_RUNTIME_API_H
#define NICLESS_STUB_CUDA_RUNTIME_API_H

#include <stddef.h>

#define CUDART_VERSION 11000

typedef int cudaError_t;
enum {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorHostMemoryAlreadyRegistered = 712,
	cudaErrorHostMemoryNotRegistered = 713
};
enum { cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2, cudaHostRegisterIoMemory = 4 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

/* The fields that are not used here have no names. */
struct cudaDeviceProp {
	char name[256], uuid[16], unused1[16];
	size_t totalGlobalMem, sharedMemPerBlock;
	int regsPerBlock, warpSize;
	size_t memPitch;
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
	size_t totalConstMem;
	int major, minor;
	size_t unused2[2];
	int unused3, multiProcessorCount;
	char unused4[336];
};

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *at);
cudaError_t cudaHostGetDevicePointer(void **to, void *at, unsigned flags);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMalloc(void **to, size_t bytes);
cudaError_t cudaMallocManaged(void **to, size_t bytes, unsigned flags);
cudaError_t cudaMemset(void *at, int value, size_t bytes);
cudaError_t cudaFree(void *at);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
#ifdef __cplusplus
}
#endif

#endif
