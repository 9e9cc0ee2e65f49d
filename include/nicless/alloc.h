/*
 * Memory for the payload of verbs programs.
 *
 * Where a program runs with the library that verbs programs preload
 * (libnicless_verbs.so), this memory is shared with the engine from birth: the
 * engine reaches it without a call of the kernel, and ibv_reg_mr of it moves
 * nothing. Elsewhere it is ordinary memory on a page, so that a program needs no
 * second way. Nothing has to be linked; before glibc 2.34 -ldl.
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

/* Zeroed memory of at least size bytes that begins on a page. 0: errno says why not. */
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
		memcpy(&alloc, &symbol, sizeof alloc); /* standard C has no such cast */
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

/* Takes it back, whichever it was. Regions registered in it have to be gone. */
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
