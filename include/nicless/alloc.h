/*
 * Memory for the payload of verbs programs.
 *
 * nicless_buffer returns memory that is shared with the engine from the beginning
 * if the program runs with the preloaded library for verbs programs
 * (libnicless_verbs.so). The engine accesses such memory without a system call, and
 * ibv_reg_mr need not move its pages into shared memory, as it must for other memory.
 * In any other program nicless_buffer returns ordinary memory, aligned to a page, so
 * the same program serves both cases. No library has to be linked, except -ldl before
 * glibc 2.34.
 *
 * Host code only.
 */
#ifndef NICLESS_ALLOC_H
#define NICLESS_ALLOC_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef RTLD_DEFAULT
#error "nicless: include alloc.h first, or define _GNU_SOURCE"
#endif

typedef void *(*nicless_alloc_function)(size_t size);
typedef int (*nicless_free_function)(void *at);

/* Returns at least size bytes of zeroed memory, aligned to a page, or 0 with errno set. */
static inline void *nicless_buffer(size_t size) {
	void *symbol = dlsym(RTLD_DEFAULT, "nicless_alloc"), *at = 0;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int error;
	if (size == 0 || size > (size_t)-1 - page) {
		errno = size ? ENOMEM : EINVAL;
		return 0;
	}
	if (symbol) {
		nicless_alloc_function alloc;
		memcpy(&alloc, &symbol, sizeof alloc); /* standard C has no cast from object to function pointer */
		at = alloc(size);
		if (at)
			return at;
	}
	size = (size + page - 1) & ~(page - 1);
	error = posix_memalign(&at, page, size);
	if (error) {
		errno = error;
		return 0;
	}
	return memset(at, 0, size);
}

/*
 * Frees memory that nicless_buffer returned, shared or ordinary. Before the call, deregister every
 * MR in it.
 */
static inline void nicless_buffer_free(void *at) {
	void *symbol = dlsym(RTLD_DEFAULT, "nicless_free");
	if (at && symbol) {
		nicless_free_function give;
		memcpy(&give, &symbol, sizeof give);
		if (give(at) == 0)
			return;
	}
	free(at);
}

#endif
