/* The functions that this library wraps. They are looked up at their first use, because the
 * constructor of another library may call them before this library's constructor has run. */
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
		abort(); /* it was called, so the program was linked with it */
	memcpy(&f, &symbol, sizeof f); /* standard C has no cast from an object pointer to a function pointer */
	__atomic_store_n(&found[which], f, __ATOMIC_RELAXED);
	return f;
}
