/*
 * RUN(expression) evaluates an expression, and RESULT(expression) is the value of one of type int. In a
 * CUDA program a kernel of one thread evaluates it, with copies of the local variables in it. Memory that it
 * reaches by pointers has been given to share().
 */
#ifndef NICLESS_CHECK_DEVICE_H
#define NICLESS_CHECK_DEVICE_H

/* Pages are registered with CUDA once each, so what is shared begins with a page. */
#define PAGES __attribute__((aligned(4096)))

#if defined(__CUDACC__) || defined(__CUDA__)

#include <stdio.h>
#include <stdlib.h>

static int device_result PAGES;

static void must(cudaError_t error) {
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
	exit(1);
}

static inline void share(void *memory, size_t bytes) {
	static bool first = true;
	if (first) {
		first = false;
		share(&device_result, sizeof device_result);
	}
	must(cudaHostRegister(memory, bytes, cudaHostRegisterMapped));
}

template <typename Function> __global__ void evaluate(Function f, int *result) { *result = f(); }

template <typename Function> static int on_device(Function f) {
	evaluate<<<1, 1>>>(f, &device_result);
	must(cudaDeviceSynchronize());
	return device_result;
}

#define RESULT(expression) on_device([=] __device__() { return (int)(expression); })
#define RUN(expression) \
	on_device([=] __device__() { \
		(void)(expression); \
		return 0; \
	})

#else

static inline void share(void *memory, size_t bytes) {
	(void)memory;
	(void)bytes;
}

#define RESULT(expression) (expression)
#define RUN(expression) ((void)(expression))

#endif
#endif
