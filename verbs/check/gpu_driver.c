/* The part of NVIDIA's driver that pins memory, for gpu.c, which preloads this library after that of nicless:
 * it answers two ioctls of any descriptor. The driver itself (580, H200) refuses the flags of I/O memory with
 * the same status for memory that is none, and pins shared and private memory. */
#define _GNU_SOURCE
#include "gpu_driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>

/* Called when the driver has done its part, before its caller knows; NULL: nothing. */
void (*gpu_driver_hook)(void);

static int answered(void) {
	void (*hook)(void) = gpu_driver_hook;
	gpu_driver_hook = NULL;
	if (hook)
		hook();
	return 0;
}

int ioctl(int fd, unsigned long request, ...) {
	static int (*next)(int, unsigned long, void *);
	va_list args;
	void *arg;
	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == ALLOC_MEMORY) {
		struct os_descriptor *m = arg;
		m->status = m->class == OS_DESCRIPTOR && (m->flags & 0xfff0) == 0 ? INVALID_FLAGS : 0;
		return answered();
	}
	if (request == FREE) {
		((struct nv_free *)arg)->status = 0;
		return answered();
	}
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	return next(fd, request, arg);
}
