/* Callbacks of streams (cudaStreamAddCallback), the older form of functions of the host. */
#include "common.h"

#include <stdlib.h>

struct callback {
	void (*f)(uint64_t stream, int status, void *with);
	uint64_t stream;
	void *with;
};

static void call(void *p) {
	struct callback c = *(struct callback *)p;
	free(p);
	c.f(c.stream, OK, c.with);
}

int gpu_add_callback(int device, uint64_t stream, void (*f)(uint64_t, int, void *), void *with, unsigned flags) {
	struct callback *c;
	int error;
	if (!f || flags)
		return INVALID_VALUE;
	c = malloc(sizeof *c);
	if (!c)
		return OUT_OF_MEMORY;
	*c = (struct callback){f, stream, with};
	error = gpu_call(device, stream, (void *)call, c);
	if (error)
		free(c);
	return error;
}
