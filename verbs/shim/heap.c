/* The heap of the C library: memory in which malloc keeps data of its own between the blocks.
 *
 * At a fork of a program with threads, the C library takes the locks of malloc, and releases them
 * in the parent before the child has its copy of moved pages (fork.c). In the child it resets
 * these locks. So malloc's data must not be in moved pages. In the heap, only the whole pages
 * of one block are moved, while they are registered.
 *
 * The layouts are those of glibc: malloc/malloc.c (malloc_chunk), malloc/arena.c (heap_info).
 * Other C libraries keep no such data between the blocks, or have their locks in handlers of
 * fork, which run after the child has its copy. A block of malloc that is a mapping of its own
 * has no data of other blocks. */
#include "shim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

/* Returns where the heap of brk starts; 0: unknown, and then everything below its end counts
 * as heap. */
static uint64_t start_of_brk(void) {
	enum { START_BRK = 47 }; /* field of /proc/PID/stat, proc(5) */
	static uint64_t start;
	char text[2048], *at = NULL;
	int fd, field;
	ssize_t n;
	if (__atomic_load_n(&start, __ATOMIC_RELAXED))
		return start;
	fd = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : NV_REAL(read)(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	if (n > 0) {
		text[n] = 0;
		at = strrchr(text, ')'); /* ends field 2 */
	}
	for (field = 2; at && field < START_BRK; field++)
		at = strchr(at + 1, ' ');
	if (at)
		__atomic_store_n(&start, strtoull(at, NULL, 10), __ATOMIC_RELAXED);
	return start;
}

/* Each further heap of malloc starts at a multiple of its greatest size, with this structure. The
 * first one of an arena has the arena right behind it. */
enum { HEAP = 64 << 20 };

struct heap_info {
	uint64_t arena, previous, size, accessible, page;
};

/* Returns the end of the heap of malloc that may contain addr; 0: it is in none. */
static uint64_t end_of_heap(const struct nv_process *p, uint64_t addr) {
	uint64_t base = addr & ~(uint64_t)(HEAP - 1);
	struct heap_info h;
	struct nv_mapping v;
	struct nv_maps maps;
	bool there;
	if (base == 0 || nv_maps_open(&maps) != 0)
		return 0;
	there = nv_maps_next(&maps, base, &v) == 0 && v.start <= base && (v.prot & PROT_READ) && !v.file;
	nv_maps_close(&maps);
	if (!there || nv_fetch(p, &h, base, sizeof h) != 0 || h.arena < 4096 || h.arena % 16 || h.size == 0 ||
	    h.size > HEAP || h.size % 4096 || (h.arena - base >= 4096 && h.previous == 0))
		return 0;
	return addr < base + h.size ? base + h.size : 0;
}

/* Reports whether the pages are in one block of malloc that starts with them. */
static bool is_block(const struct nv_process *p, uint64_t addr, uint64_t length, uint64_t end) {
	enum { IN_USE = 1, MAPPED = 2, FLAGS = 7 }; /* IN_USE: the block before is */
	uint64_t size, next;
	if (nv_fetch(p, &size, addr - 8, sizeof size) != 0 || (size & MAPPED))
		return false;
	size &= ~(uint64_t)FLAGS;
	/* The header of the next block is in the heap too. */
	if (size % 16 || size < length + 16 || size > end - addr)
		return false;
	return nv_fetch(p, &next, addr - 8 + size, sizeof next) == 0 && (next & IN_USE) &&
	       !(next & MAPPED);
}

bool nv_in_heap(const struct nv_process *p, uint64_t addr, uint64_t length, bool *whole) {
	uint64_t brk = (uint64_t)NV_SYSCALL(SYS_brk, 0), start = start_of_brk(), end, base;
	*whole = true;
	if (addr < brk && start < addr + length) {
		*whole = addr > start && addr + length <= brk && is_block(p, addr, length, brk);
		return true;
	}
	end = end_of_heap(p, addr);
	if (end) {
		*whole = addr + length <= end && addr % HEAP && is_block(p, addr, length, end);
		return true;
	}
	/* A range that reaches into a heap is no block. */
	for (base = (addr + HEAP) & ~(uint64_t)(HEAP - 1); base < addr + length; base += HEAP)
		if (end_of_heap(p, base)) {
			*whole = false;
			return true;
		}
	return false;
}
