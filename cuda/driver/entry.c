/*
 * Functions by name. A function whose parameters have changed has a name with a suffix, and programs ask for
 * it without.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The version of CUDA since which a name without a suffix means one with it. Others mean it always. */
static const struct {
	const char *name;
	int since;
} changed[] = {
	{"cuGetProcAddress_v2", 12000}, {"cuCtxCreate_v3", 11040},     {"cuCtxCreate_v4", 13000},
	{"cuDeviceGetUuid_v2", 11040},  {"cuEventElapsedTime_v2", 12080}, {"cuStreamGetCaptureInfo_v3", 12030},
};

static int since(const char *name) {
	for (size_t k = 0; k < sizeof changed / sizeof *changed; k++)
		if (!strcmp(changed[k].name, name))
			return changed[k].since;
	return 0;
}

static void *find(const char *name, int version) {
	char full[96];
	if (strncmp(name, "cu", 2))
		return NULL;
	for (int v = 4; v > 1; v--) {
		void *f;
		if (snprintf(full, sizeof full, "%s_v%d", name, v) >= (int)sizeof full || since(full) > version)
			continue;
		f = dlsym(RTLD_DEFAULT, full);
		if (f)
			return f;
	}
	return dlsym(RTLD_DEFAULT, name);
}

API CUresult cuGetProcAddress_v2(const char *name, void **f, int version, uint64_t flags, int *status) {
	(void)flags;
	*f = find(name, version);
	if (status)
		*status = *f ? 0 : 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
	return *f ? OK : NOT_FOUND;
}

API CUresult cuGetProcAddress(const char *name, void **f, int version, uint64_t flags) {
	return cuGetProcAddress_v2(name, f, version, flags, NULL);
}
