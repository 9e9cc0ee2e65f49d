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

enum { OWN_STREAM = 2 }; /* a flag: the stream 0 is the thread's own */

/* Looks up the form of a function for a thread's own stream, or the only one. */
static void *look(const char *name, uint64_t flags) {
	static const char *const suffixes[] = {"_ptsz", "_ptds"};
	char full[96];
	for (int k = 0; flags & OWN_STREAM && k < 2; k++) {
		void *f = snprintf(full, sizeof full, "%s%s", name,
		                   suffixes[k]) < (int)sizeof full ? dlsym(RTLD_DEFAULT, full) : NULL;
		if (f)
			return f;
	}
	return dlsym(RTLD_DEFAULT, name);
}

static void *find(const char *name, int version, uint64_t flags) {
	char full[96];
	if (strncmp(name, "cu", 2))
		return NULL;
	for (int v = 4; v > 1; v--) {
		void *f;
		if (snprintf(full, sizeof full, "%s_v%d", name, v) >= (int)sizeof full || since(full) > version)
			continue;
		f = look(full, flags);
		if (f)
			return f;
	}
	return look(name, flags);
}

API CUresult cuGetProcAddress_v2(const char *name, void **f, int version, uint64_t flags, int *status) {
	*f = find(name, version, flags);
	if (status)
		*status = *f ? 0 : 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
	return *f ? OK : NOT_FOUND;
}

API CUresult cuGetProcAddress(const char *name, void **f, int version, uint64_t flags) {
	return cuGetProcAddress_v2(name, f, version, flags, NULL);
}
