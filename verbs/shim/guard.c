/* The server reaches this program's memory by the number of the process, which stays
 * when another program is executed in its place, and goes to a stranger when the
 * process has ended. So it looks first whether the guard is there: random bytes, in a
 * page at a random address. No other program has them, and no child of a fork. */
#include "shim.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* before Linux 4.17 a hint */
#endif

/* Bits of addresses: of most machines, and of those with three levels of pages. */
static const int widths[] = {46, 38};

enum { TRIES = 16 };

/* A page at a random address of so many bits; NULL: errno says why not. */
static void *map(int bits, size_t page, uint64_t *cookie) {
	uint64_t random[2];
	void *at, *wish;
	if (getrandom(random, sizeof random, 0) != sizeof random)
		return NULL;
	wish = (void *)(uintptr_t)(random[0] & (((uint64_t)1 << bits) - 1) & ~(uint64_t)(page - 1));
	*cookie = random[1];
	at = nv_sys_mmap(wish, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
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
