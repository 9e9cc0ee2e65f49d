/* Functions of the private tables that say in other words what the driver's public functions say. */
#include "tables.h"

#include <stdio.h>

API CUresult cuModuleLoadData(CUmodule *module, const void *image);

static int load(CUmodule *module, const void *image) {
	return module && image ? cuModuleLoadData(module, image) : INVALID_VALUE;
}

static int plain(const void *a, const void *b, unsigned c) {
	if (!a && !b && !c)
		return OK;
	fprintf(stderr, "nicless: GPU: CUDA's static runtime loads a fat binary with the unknown parameters %p, %p and "
	        "%u, of which emulated GPUs serve zeros only: error %d\n", a, b, c, NOT_SUPPORTED);
	return NOT_SUPPORTED;
}

int private_load(CUmodule *module, const struct wrapper *w) { return load(module, w); }

int private_load_with(CUmodule *module, const struct wrapper *w, void *a, void *b, unsigned c) {
	int error = plain(a, b, c);
	return error ? error : load(module, w);
}

int private_load_container(const void *container, CUmodule *module, void *a, void *b, unsigned c) {
	int error = plain(a, b, c);
	return error ? error : load(module, container);
}

void private_unloading(const struct wrapper *w) { (void)w; }
int private_load_compiler(void) { return OK; }

/* No tool ever subscribes. The runtime may look beyond the sizes, whose units are not known. */
enum { MOST_ENTRIES = 1024, MOST_OTHERS = 14 };
static uint64_t entries[MOST_ENTRIES], others[MOST_ENTRIES];

void private_subscribed(void **to, size_t *size) {
	*to = entries;
	*size = MOST_ENTRIES;
}

void private_subscribed_too(void **to, size_t *size) {
	*to = others;
	*size = MOST_OTHERS;
}

int private_state(CUcontext c, uint32_t *wrong, void **more) {
	(void)c; (void)more;
	*wrong = 0;
	return OK;
}

uint32_t private_state_of_all(void) { return 0; }
