/*
 * Compiled once for each runtime, with PART, its major version. The kernel and the variable have the same
 * names in all parts, so the linker gives all parts the stub and the shadow of one; each runtime has its own
 * meaning for them.
 */
#include "check.h"
#include "part.h"

extern "C" {
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t n, size_t offset, int way);
}

__device__ unsigned counter = 1000 * PART;

__global__ void add(unsigned *to, unsigned n) {
	unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
	if (k < n)
		to[k] += PART;
}

__global__ void increment() { counter++; }

static int version() {
	int v;
	OK(cudaRuntimeGetVersion(&v));
	return v;
}

static unsigned *allocate(unsigned words) {
	void *p;
	OK(cudaMalloc(&p, words * sizeof(unsigned)));
	OK(cudaMemset(p, 0, words * sizeof(unsigned)));
	return (unsigned *)p;
}

static void release(unsigned *p) { OK(cudaFree(p)); }

static void *stream() {
	cudaStream_t s;
	OK(cudaStreamCreateWithFlags(&s, 1));
	return s;
}

static void launch_add(unsigned *p, unsigned words, void *s) {
	add<<<(words + 63) / 64, 64, 0, (cudaStream_t)s>>>(p, words);
	OK(cudaGetLastError());
}

static void synchronize(void *s) { OK(cudaStreamSynchronize((cudaStream_t)s)); }

static unsigned count() {
	unsigned v;
	increment<<<1, 1>>>();
	OK(cudaMemcpyFromSymbol(&v, &counter, sizeof v, 0, cudaMemcpyDeviceToHost));
	return v;
}

static int fail() { return cudaSetDevice(99); }
static int last() { return cudaGetLastError(); }
static void choose(int device) { OK(cudaSetDevice(device)); }

static int chosen() {
	int device;
	OK(cudaGetDevice(&device));
	return device;
}

static const struct part part = {version, allocate, release, stream, launch_add, synchronize,
                                 count,   fail,     last,    choose, chosen};

#define NAME_(version) part_##version
#define NAME(version) NAME_(version)
extern "C" const struct part *NAME(PART)(void) { return &part; }
