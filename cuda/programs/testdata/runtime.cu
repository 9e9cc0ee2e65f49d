/*
 * Calls CUDA's runtime as programs do, and checks what it does. The argument says which part: all that goes
 * well, or one thing that goes wrong, after which nothing works any more. Prints ok, or what was wrong.
 */
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime.h>

#include "check.h"

extern "C" {
typedef struct stub_event *cudaEvent_t;
__device__ int printf(const char *format, ...);
__device__ void __assertfail(const char *what, const char *file, unsigned line, const char *function,
                             size_t size);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s);
cudaError_t cudaFreeAsync(void *p, cudaStream_t s);
cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int way, cudaStream_t stream);
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t n, size_t offset, int way);
cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t n, size_t offset, int way);
cudaError_t cudaGetSymbolAddress(void **at, const void *symbol);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamQuery(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t s, void (*f)(void *), void *with);
cudaError_t cudaStreamAddCallback(cudaStream_t s, void (*f)(cudaStream_t, cudaError_t, void *), void *with,
                                  unsigned flags);
cudaError_t cudaLaunchCooperativeKernel(const void *f, dim3 grid, dim3 block, void **args, size_t shared,
                                        cudaStream_t s);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int block, size_t shared);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
}

__device__ unsigned counter = 5;
__device__ volatile unsigned hand;

__global__ void add(unsigned *to, unsigned n, unsigned v) {
	unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
	if (k < n)
		to[k] += v;
}

__global__ void count() { atomicAdd(&counter, 1); }

__global__ void wait_for(volatile unsigned *word, unsigned v) {
	while (*word != v) {
	}
}

/* Every block waits for all others, so all have to be resident. */
__global__ void meet(unsigned *arrived, unsigned blocks) {
	if (threadIdx.x == 0) {
		atomicAdd(arrived, 1);
		while (*(volatile unsigned *)arrived < blocks) {
		}
	}
}

/* The blocks meet as those of CUDA's cooperative groups do: at a word of the grid's workspace, whose address is in
 * two registers. */
__global__ void meet_again(unsigned *arrived, unsigned blocks, unsigned rounds) {
	unsigned high, low, old;
	asm("mov.u32 %0, %%envreg1;" : "=r"(high));
	asm("mov.u32 %0, %%envreg2;" : "=r"(low));
	volatile unsigned *barrier = (volatile unsigned *)((unsigned long long)high << 32 | low) + 1;
	for (unsigned k = 1; k <= rounds; k++) {
		atomicAdd(arrived, 1);
		asm volatile("fence.acq_rel.gpu;" ::: "memory");
		old = atomicAdd((unsigned *)barrier, blockIdx.x == 0 ? 0x80000001 - blocks : 1);
		while (((*barrier ^ old) & 0x80000000) == 0) {
		}
		if (*(volatile unsigned *)arrived < k * blocks)
			atomicAdd(arrived + 1, 1);
	}
}

__global__ void say(int n) { printf("kernel: %d, %s, %.1f\n", n, "text", 1.5); }
__global__ void store_to(unsigned *p) { *p = 1; }
__global__ void begun(unsigned *p) {
	*(volatile unsigned *)p = 1;
	while (*(volatile unsigned *)(p + 1) == 0) {
	}
}
__global__ void refuse(int n) {
	if (n)
		__assertfail("n == 0", "runtime.cu", 1, "refuse", 1);
}

static void tell(void *word) { __atomic_store_n((unsigned *)word, 1, __ATOMIC_RELEASE); }

static cudaStream_t told;

/* It comes after tell. */
static void tell_stream(cudaStream_t s, cudaError_t error, void *words) {
	unsigned *w = (unsigned *)words;
	told = s;
	w[1] = error == 0 ? w[2] + 10 : 0;
}

static void everything() {
	const unsigned n = 1000;
	unsigned *there, *managed, here[n], v = 7, *host;
	int devices, blocks;
	float ms = -1;
	cudaStream_t a, b;
	cudaEvent_t first, second;
	void *at;
	OK(cudaGetDeviceCount(&devices));
	CHECK(devices == 2);
	WANT(101, cudaSetDevice(2));
	WANT(101, cudaGetLastError());
	OK(cudaGetLastError());

	OK(cudaMalloc((void **)&there, n * 4));
	for (unsigned k = 0; k < n; k++)
		here[k] = k;
	OK(cudaMemcpy(there, here, n * 4, cudaMemcpyHostToDevice));
	add<<<(n + 127) / 128, 128>>>(there, n, 3);
	OK(cudaGetLastError());
	OK(cudaMemcpy(here, there, n * 4, cudaMemcpyDeviceToHost));
	for (unsigned k = 0; k < n; k++)
		CHECK(here[k] == k + 3);
	WANT(1, cudaMemcpy(there, here, n * 4 + 1, cudaMemcpyHostToDevice)); /* more than was allocated */
	cudaGetLastError();

	/* Variables. */
	count<<<2, 3>>>();
	OK(cudaMemcpyFromSymbol(&v, &counter, 4, 0, cudaMemcpyDeviceToHost));
	CHECK(v == 11);
	v = 100;
	OK(cudaMemcpyToSymbol(&counter, &v, 4, 0, cudaMemcpyHostToDevice));
	count<<<1, 1>>>();
	OK(cudaGetSymbolAddress(&at, &counter));
	OK(cudaMemcpy(&v, at, 4, cudaMemcpyDeviceToHost));
	CHECK(v == 101);
	WANT(13, cudaGetSymbolAddress(&at, &v));
	cudaGetLastError();

	/* A kernel of one stream waits for another stream; the default stream would wait for both. */
	OK(cudaMallocManaged((void **)&managed, 4096));
	OK(cudaStreamCreateWithFlags(&a, 1));
	OK(cudaStreamCreateWithFlags(&b, 1));
	OK(cudaEventCreate(&first));
	OK(cudaEventCreate(&second));
	OK(cudaEventRecord(first, a));
	wait_for<<<1, 1, 0, a>>>(managed, 1);
	OK(cudaEventRecord(second, a));
	WANT(600, cudaStreamQuery(a));
	OK(cudaStreamWaitEvent(b, second, 0));
	add<<<1, 1, 0, b>>>(managed + 1, 1, 9);
	WANT(600, cudaStreamQuery(b));
	managed[0] = 1;
	OK(cudaStreamSynchronize(b));
	CHECK(managed[1] == 9);
	OK(cudaEventSynchronize(second));
	OK(cudaEventElapsedTime(&ms, first, second));
	CHECK(ms > 0);
	OK(cudaLaunchHostFunc(a, tell, &managed[2]));
	OK(cudaStreamAddCallback(a, tell_stream, managed, 0));
	WANT(1, cudaStreamAddCallback(a, tell_stream, managed, 1));
	WANT(1, cudaStreamAddCallback(a, 0, managed, 0));
	OK(cudaStreamSynchronize(a));
	CHECK(managed[2] == 1 && managed[1] == 11 && told == a);
	cudaGetLastError();
	OK(cudaStreamDestroy(a));
	OK(cudaStreamDestroy(b));

	/* Host memory. */
	host = (unsigned *)aligned_alloc(4096, 8192);
	host[0] = 0;
	OK(cudaHostRegister(host, 8192, cudaHostRegisterMapped));
	WANT(712, cudaHostRegister(host + 1024, 4096, cudaHostRegisterMapped));
	cudaGetLastError();
	OK(cudaHostGetDevicePointer(&at, host, 0));
	add<<<1, 1>>>((unsigned *)at, 1, 4);
	OK(cudaDeviceSynchronize());
	CHECK(host[0] == 4);
	OK(cudaHostUnregister(host));
	WANT(713, cudaHostUnregister(host));
	cudaGetLastError();

	/* Blocks that wait for each other. */
	OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)meet, 256, 0));
	CHECK(blocks == 8);
	const struct { int block; size_t shared; int blocks; } resident[] = {
		{32, 0, 32}, {1024, 0, 2}, {65, 0, 21}, {64, 8 << 10, 25}, {32, 113 << 10, 2},
		{32, 114 << 10, 1}, {32, 227 << 10, 1},
		{32, (227 << 10) + 1, 0}, {32, ~(size_t)0, 0}, {1025, 0, 0},
	};
	for (int k = 0; k < (int)(sizeof resident / sizeof *resident); k++) {
		OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)meet, resident[k].block,
		                                                 resident[k].shared));
		CHECK(blocks == resident[k].blocks);
	}
	unsigned all = 100, *arrived = managed + 3;
	void *args[] = {&arrived, &all};
	OK(cudaLaunchCooperativeKernel((const void *)meet, all, 256, args, 0, 0));
	OK(cudaDeviceSynchronize());
	CHECK(*arrived == 100);
	unsigned some = 40, rounds = 5;
	void *again[] = {&arrived, &some, &rounds};
	arrived[0] = arrived[1] = 0;
	OK(cudaLaunchCooperativeKernel((const void *)meet_again, some, 1, again, 0, 0));
	OK(cudaDeviceSynchronize());
	CHECK(arrived[0] == 200 && arrived[1] == 0);
	const struct { int block; size_t shared; } together[] = {{256, 0}, {1024, 0}, {32, 0}, {64, 40 << 10}};
	int sms;
	OK(cudaDeviceGetAttribute(&sms, 16, 0));
	for (int k = 0; k < (int)(sizeof together / sizeof *together); k++) {
		int block = together[k].block;
		size_t shared = together[k].shared;
		OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)meet, block, shared));
		all = (unsigned)(sms * blocks);
		*arrived = 0;
		OK(cudaLaunchCooperativeKernel((const void *)meet, all, block, args, shared, 0));
		OK(cudaDeviceSynchronize());
		CHECK(*arrived == all);
		WANT(720, cudaLaunchCooperativeKernel((const void *)meet, all + 1, block, args, shared, 0));
		cudaGetLastError();
	}
	add<<<1, 2000>>>(there, n, 1);
	WANT(9, cudaGetLastError());

	say<<<1, 1>>>(42);
	OK(cudaDeviceSynchronize());
	WANT(1, cudaMalloc((void **)0, 16));
	WANT(1, cudaFreeHost(there));
	OK(cudaDeviceCanAccessPeer(&blocks, 0, 1));
	CHECK(blocks == 1);
	WANT(101, cudaDeviceCanAccessPeer(&blocks, 0, 2));
	OK(cudaDeviceEnablePeerAccess(1, 0));
	WANT(704, cudaDeviceEnablePeerAccess(1, 0));
	OK(cudaDeviceDisablePeerAccess(1));
	WANT(705, cudaDeviceDisablePeerAccess(1));
	OK(cudaFree(there));
	OK(cudaFree(managed));
	WANT(1, cudaFree(there));

	/* A child of fork has none of the library's threads. */
	int status;
	if (fork() == 0)
		_exit(cudaDeviceSynchronize() == 3 ? 0 : 1);
	wait(&status);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Memory is freed when its stream gets there, and nobody waits for other streams. */
static void ordered() {
	const unsigned n = 1000;
	unsigned *word, *p, *again, here[n];
	cudaStream_t a, b;
	OK(cudaMallocManaged((void **)&word, 8));
	OK(cudaStreamCreateWithFlags(&a, 1));
	OK(cudaStreamCreateWithFlags(&b, 1));
	word[0] = word[1] = 0;
	wait_for<<<1, 1, 0, a>>>(word, 1); /* as long as the rest takes */

	wait_for<<<1, 1, 0, b>>>(word + 1, 1);
	OK(cudaMallocAsync((void **)&p, n * 4, b));
	OK(cudaMemsetAsync(p, 0, n * 4, b));
	add<<<(n + 127) / 128, 128, 0, b>>>(p, n, 5);
	OK(cudaFreeAsync(p, b));
	WANT(1, cudaFreeAsync(p, b));
	OK(cudaMallocAsync((void **)&again, n * 4, b)); /* it is free in this stream, which has not begun */
	CHECK(again == p);
	WANT(600, cudaStreamQuery(b));
	word[1] = 1;
	OK(cudaMemcpyAsync(here, again, n * 4, cudaMemcpyDeviceToHost, b));
	OK(cudaStreamSynchronize(b));
	CHECK(here[0] == 5 && here[n - 1] == 5);
	OK(cudaFreeAsync(again, b));
	OK(cudaStreamSynchronize(b));
	WANT(1, cudaMemcpyAsync(here, again, n * 4, cudaMemcpyDeviceToHost, b));
	cudaGetLastError();
	WANT(600, cudaStreamQuery(a));
	word[0] = 1;
	OK(cudaDeviceSynchronize());
	OK(cudaFree(word));
}

/* An error of a kernel is one of the device: every later call returns it. */
static void stays(cudaError_t error) {
	void *p;
	WANT(error, cudaDeviceSynchronize());
	WANT(error, cudaMalloc(&p, 16) ? error : cudaDeviceSynchronize());
	WANT(error, cudaGetLastError());
	count<<<1, 1>>>();
	WANT(error, cudaGetLastError());
}

int main(int argc, char **argv) {
	const char *part = argc == 2 ? argv[1] : "";
	unsigned *p;
	if (!strcmp(part, "all")) {
		everything();
		ordered();
	} else if (!strcmp(part, "address")) {
		store_to<<<1, 1>>>((unsigned *)64);
		stays(700);
	} else if (!strcmp(part, "beyond")) {
		OK(cudaMalloc((void **)&p, 100));
		store_to<<<1, 1>>>(p + 25);
		stays(700);
	} else if (!strcmp(part, "misaligned")) {
		OK(cudaMalloc((void **)&p, 100));
		store_to<<<1, 1>>>((unsigned *)((char *)p + 2));
		stays(716);
	} else if (!strcmp(part, "assert")) {
		refuse<<<1, 1>>>(1);
		stays(710);
	} else if (!strcmp(part, "endless") || !strcmp(part, "leave")) {
		OK(cudaMallocManaged((void **)&p, 8));
		begun<<<1, 64>>>(p);
		while (!__atomic_load_n(p, __ATOMIC_ACQUIRE)) {
		}
		printf("it runs\n");
		fflush(stdout);
		if (!strcmp(part, "endless"))
			OK(cudaDeviceSynchronize());
	} else {
		return 2;
	}
	printf("ok\n");
	return 0;
}
