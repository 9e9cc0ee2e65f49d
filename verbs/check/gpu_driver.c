/* The part of NVIDIA's driver that pins memory, for gpu.c, which preloads this library after that of nicless:
 * it answers two ioctls of any descriptor. The driver itself (580, H200) answers I/O memory that is none with
 * the same status, and pins shared and private memory. */
#define _GNU_SOURCE
#include "gpu_driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/ioctl.h>

int ioctl(int fd, unsigned long request, ...) {
	static int (*next)(int, unsigned long, void *);
	va_list args;
	void *arg;
	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == ALLOC_MEMORY) {
		struct os_descriptor *m = arg;
		m->status = m->class == OS_DESCRIPTOR && (m->flags & 0xfff0) == 0 ? NOT_IO_MEMORY : 0;
		return 0;
	}
	if (request == FREE) {
		((struct nv_free *)arg)->status = 0;
		return 0;
	}
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	return next(fd, request, arg);
}
