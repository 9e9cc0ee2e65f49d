/* The engine accesses this program's memory by its process number. The number stays the same
 * when the process executes another program, and is reused after the process has ended. So
 * the engine first checks for the guard: random bytes in a page at a random address. Another
 * program does not have these bytes there, and neither does a child of a fork. */
#include "shim.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* before Linux 4.17 the address is only a hint */
#endif

/* Bits of a program's addresses: on most machines, and on machines with three levels of page
 * tables. */
static const int widths[] = {46, 38};

enum { TRIES = 16 };

/* Maps a page at a random address of `bits` bits; NULL, with errno set, on failure. */
static void *map(int bits, size_t page, uint64_t *cookie) {
	uint64_t random[2];
	void *at, *wish;
	if (getrandom(random, sizeof random, 0) != sizeof random)
		return NULL;
	wish = (void *)(uintptr_t)(random[0] & (((uint64_t)1 << bits) - 1) & ~(uint64_t)(page - 1));
	*cookie = random[1];
	at = nv_sys_mmap(wish, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
	                 -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	if (at == wish && madvise(at, page, MADV_DONTFORK) == 0)
		return at;
	munmap(at, page);
	errno = EEXIST;
	return NULL;
}

const uint64_t *nv_guard(struct nv_process *p) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE), i;
	uint64_t cookie, *at;
	for (i = 0; !p->guard && i < sizeof widths / sizeof *widths * TRIES; i++) {
		at = map(widths[i / TRIES], page, &cookie);
		if (!at)
			continue;
		*at = cookie;
		p->guard = at;
	}
	return p->guard;
}
