/*
 * Calls CUDA's runtime, and the driver beside it without cuInit, as libraries do that leave the beginning to their
 * program (DOCA GPUNetIO). Prints ok, or what was wrong.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INTEGRATED = 18 };

int cudaGetDeviceCount(int *n);
int cudaFree(void *p);

static void *driver;

static int (*f(const char *name))() {
	int (*p)() = (int (*)())dlsym(driver, name);
	if (!p) {
		printf("%s: not there\n", name);
		exit(1);
	}
	return p;
}

#define WANT(error, call) \
	do { \
		int error_ = (call); \
		if (error_ != (error)) { \
			printf("line %d: %s is %d, and not %d\n", __LINE__, #call, error_, error); \
			exit(1); \
		} \
	} while (0)

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
	printf("ok\n");
	return 0;
}
