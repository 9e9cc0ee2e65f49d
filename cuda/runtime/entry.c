/* Functions of the driver by name: NCCL calls the driver by no other way. */
#include "runtime.h"

#include <dlfcn.h>

/* The driver is found where this library is, and stays: its functions have been handed out. */
static int look_up(const char *name, void **f, int version, unsigned long long flags, int *status) {
	int (*get)(const char *, void **, int, uint64_t, int *);
	int answer = 1; /* cudaDriverEntryPointSymbolNotFound */
	void *driver;
	if (!name || !f)
		return INVALID_VALUE;
	*f = NULL;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (driver) {
		get = (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
		get(name, f, version, flags, &answer);
	}
	if (status)
		*status = answer;
	return *f || status ? OK : INVALID_SYMBOL;
}

#if CUDART == 11
API cudaError_t cudaGetDriverEntryPoint(const char *name, void **f, unsigned long long flags) {
	return DO(look_up(name, f, VERSION, flags, NULL));
}
#else
API cudaError_t cudaGetDriverEntryPoint(const char *name, void **f, unsigned long long flags, int *status) {
	return DO(look_up(name, f, VERSION, flags, status));
}
#endif

API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned version,
                                                 unsigned long long flags, int *status) {
	return DO(look_up(name, f, (int)version, flags, status));
}
