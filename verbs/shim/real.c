/* The functions that we stand before. They are looked up at their first use: a
 * library that starts ahead of us may call them before our constructor ran. */
#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "real.h"

static const char *const names[] = {
#define NV_NAME(name) #name,
    NV_FUNCTIONS(NV_NAME)
#undef NV_NAME
};

static nv_any_function found[NV_FN_COUNT];

nv_any_function nv_real(enum nv_function which) {
	nv_any_function f = __atomic_load_n(&found[which], __ATOMIC_RELAXED);
	void *symbol;
	if (f)
		return f;
	symbol = dlsym(RTLD_NEXT, names[which]);
	if (!symbol)
		abort(); /* it is called, so the program was linked against it */
	memcpy(&f, &symbol, sizeof f); /* standard C has no such cast */
	__atomic_store_n(&found[which], f, __ATOMIC_RELAXED);
	return f;
}
