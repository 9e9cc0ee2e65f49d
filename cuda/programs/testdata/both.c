/*
 * Calls CUDA's runtime, and the driver beside it without cuInit, as libraries do that leave the beginning to
 * their program (DOCA GPUNetIO). Prints ok, or what was wrong.
 */
#include "check.h"

#include <dlfcn.h>

enum { INVALID_VALUE = 1, INVALID_SYMBOL = 13, INVALID_DEVICE = 101 };
enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INTEGRATED = 18 };

int cudaGetDeviceCount(int *n);
int cudaFree(void *p);
int cudaMalloc(void **p, size_t n);
int cudaGetDriverEntryPoint(const char *name, void **f, unsigned long long flags);
int cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned version, unsigned long long flags,
                                     int *status);
int cudaDeviceGetP2PAttribute(int *value, int number, int device, int peer);
int cudaThreadExchangeStreamCaptureMode(int *mode);
int cudaProfilerStart(void);
int cudaProfilerStop(void);
int cudaStreamGetCaptureInfo_v2(void *stream, int *status, void *id, void *graph, void *nodes, void *n);
struct properties { int type, handles, place, device; char rest[72]; };
int cudaMemPoolCreate(void **pool, const struct properties *p);
int cudaMemPoolDestroy(void *pool);
int cudaMemPoolSetAttribute(void *pool, int attribute, void *value);
int cudaMemPoolGetAttribute(void *pool, int attribute, void *value);
int cudaMallocFromPoolAsync(void **p, size_t n, void *pool, void *stream);
int cudaFreeAsync(void *p, void *stream);
struct handle { char bytes[64]; };
int cudaIpcGetMemHandle(struct handle *h, void *p);
int cudaIpcOpenMemHandle(void **p, struct handle h, unsigned flags);

static void *driver;

static int (*f(const char *name))() {
	int (*p)() = (int (*)())dlsym(driver, name);
	if (!p) {
		printf("%s: not there\n", name);
		exit(1);
	}
	return p;
}

/* Functions of the driver by name, as NCCL looks them up. */
static void entry_points(void) {
	void *f = NULL;
	int status = -1;
	WANT(0, cudaGetDriverEntryPoint("cuCtxSynchronize", &f, 0));
	WANT(0, ((int (*)(void))f)());
	WANT(INVALID_SYMBOL, cudaGetDriverEntryPoint("cuNoSuchFunction", &f, 0));
	WANT(0, cudaGetDriverEntryPointByVersion("cuCtxSynchronize", &f, 2000, 0, &status));
	WANT(0, status);
	WANT(0, cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &f, 2000, 0, &status));
	WANT(1, status);
	WANT(1, f == NULL);
}

/* A process does not open handles of its own memory; driver.c opens another one's. */
static void shared_memory(void) {
	struct handle h;
	char *p, *q;
	WANT(0, cudaMalloc((void **)&p, 5000));
	WANT(INVALID_VALUE, cudaIpcGetMemHandle(&h, p + 1));
	WANT(0, cudaIpcGetMemHandle(&h, p));
	WANT(INVALID_VALUE, cudaIpcOpenMemHandle((void **)&q, h, 0));
	WANT(INVALID_CONTEXT, cudaIpcOpenMemHandle((void **)&q, h, 1));
	WANT(0, cudaFree(p));
}

static void small_questions(void) {
	int n = -1;
	WANT(0, cudaDeviceGetP2PAttribute(&n, 2, 0, 1));
	WANT(1, n);
	WANT(INVALID_DEVICE, cudaDeviceGetP2PAttribute(&n, 2, 0, 0));
	n = 2;
	WANT(0, cudaThreadExchangeStreamCaptureMode(&n));
	WANT(0, n);
	WANT(0, cudaThreadExchangeStreamCaptureMode(&n));
	WANT(2, n);
	n = -1;
	WANT(0, cudaStreamGetCaptureInfo_v2(NULL, &n, NULL, NULL, NULL, NULL));
	WANT(0, n);
	WANT(0, cudaProfilerStart());
	WANT(0, cudaProfilerStop());
}

/* A pool of the second device. */
static void pools(void) {
	struct properties p = {1, 0, 1, 1, {0}};
	unsigned long long threshold = 1 << 20, got = 0;
	void *pool, *memory;
	WANT(0, cudaMemPoolCreate(&pool, &p));
	WANT(0, cudaMemPoolSetAttribute(pool, 4, &threshold));
	WANT(0, cudaMemPoolGetAttribute(pool, 4, &got));
	WANT(1, got == threshold);
	WANT(0, cudaMallocFromPoolAsync(&memory, 100, pool, NULL));
	WANT(0, f("cuPointerGetAttribute")(&got, 9, memory)); /* the device's number, an int */
	WANT(1, *(int *)&got);
	WANT(0, cudaFreeAsync(memory, NULL));
	WANT(0, cudaMemPoolDestroy(pool));
	p.device = 2;
	WANT(INVALID_DEVICE, cudaMemPoolCreate(&pool, &p));
}

int main(void) {
	void *context = NULL;
	int n;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		printf("%s\n", dlerror());
		return 1;
	}
	WANT(NOT_INITIALIZED, f("cuDeviceGetAttribute")(&n, INTEGRATED, 0));
	WANT(0, cudaGetDeviceCount(&n));
	WANT(0, f("cuDeviceGetAttribute")(&n, INTEGRATED, 0));
	WANT(INVALID_CONTEXT, f("cuCtxSynchronize")()); /* the count needs no device, so no context was made */
	WANT(0, cudaFree(NULL));
	WANT(0, f("cuCtxGetCurrent")(&context));
	WANT(1, context != NULL);
	WANT(0, f("cuCtxSynchronize")());
	entry_points();
	shared_memory();
	small_questions();
	pools();
	printf("ok\n");
	return 0;
}
