/* The functions that this library wraps. A constructor looks them up, because a signal handler, or the
 * child of a vfork, must not enter the dynamic linker. Those that the constructor of another library
 * calls before are looked up then. */
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

/* Returns false if there is no such function, as musl does not have glibc's. */
static bool look_up(size_t which, nv_any_function *f) {
	void *symbol = dlsym(RTLD_NEXT, names[which]);
	if (!symbol)
		return false;
	memcpy(f, &symbol, sizeof *f); /* standard C has no cast from an object pointer to a function pointer */
	__atomic_store_n(&found[which], *f, __ATOMIC_RELAXED);
	return true;
}

__attribute__((__constructor__)) static void look_all_up(void) {
	nv_any_function f;
	size_t i;
	for (i = 0; i < NV_FN_COUNT; i++)
		look_up(i, &f);
}

nv_any_function nv_real(enum nv_function which) {
	nv_any_function f = __atomic_load_n(&found[which], __ATOMIC_RELAXED);
	if (!f && !look_up(which, &f))
		abort(); /* it was called, so the program was linked with it */
	return f;
}
