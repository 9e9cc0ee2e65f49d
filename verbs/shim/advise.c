/* madvise and mremap of memory that was remapped: it is shared memory, and the program takes it
 * for private memory. munmap, mprotect and mlock do the same to both kinds. */
#include "shim.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static int raw_madvise(uint64_t addr, uint64_t length, int advice) {
	return (int)NV_SYSCALL(SYS_madvise, addr, length, advice);
}

/* Gives up pages: the program sees zeros from now on, in pages of its own. The memory regions
 * keep the old pages, as pinned pages are kept. */
static int give_up(const struct nv_mapping *v, uint64_t addr, uint64_t length) {
	return nv_sys_mmap((void *)(uintptr_t)addr, length, v->prot,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	               MAP_FAILED
	           ? -1
	           : 0;
}

/* Performs an advice mapping by mapping. Shared memory is not freed lazily (MADV_FREE), but
 * the kernel need not ever free such pages. */
static int advise(uint64_t addr, uint64_t length, int advice) {
	uint64_t at = addr, end;
	struct nv_mapping v;
	struct nv_maps maps;
	bool hole = false;
	int error = nv_maps_open(&maps);
	if (error)
		return raw_madvise(addr, length, advice);
	while (error == 0 && at < addr + length) {
		if (nv_maps_next(&maps, at, &v) != 0 || v.start >= addr + length) {
			hole = true;
			break;
		}
		hole = hole || v.start > at;
		at = v.start > at ? v.start : at;
		end = v.end < addr + length ? v.end : addr + length;
		if (!v.ours ? raw_madvise(at, end - at, advice) != 0
		            : advice != MADV_FREE && give_up(&v, at, end - at) != 0)
			error = errno;
		at = end;
	}
	nv_maps_close(&maps);
	if (error == 0 && hole)
		error = ENOMEM; /* as from the kernel, which has given the advice to the rest */
	if (error)
		errno = error;
	return error ? -1 : 0;
}

bool nv_madvise(int *result, uint64_t addr, uint64_t length, int advice) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if ((advice != MADV_DONTNEED && advice != MADV_DONTNEED_LOCKED && advice != MADV_FREE) || !nv_has_moved())
		return false;
	length = (length + page - 1) & ~(uint64_t)(page - 1);
	if (addr % page || length == 0 || addr + length < addr)
		return false; /* the kernel refuses it, or does nothing */
	*result = advise(addr, length, advice);
	return true;
}

static uint64_t raw_mremap(uint64_t from, uint64_t length, uint64_t wanted, int flags, uint64_t to) {
	return (uint64_t)NV_SYSCALL(SYS_mremap, from, length, wanted, flags, to);
}

/* Reports whether the range is more than one mapping, all of them private memory for the program,
 * and stores the end of the first mapping and the protection of the last one. */
static bool is_split(uint64_t from, uint64_t length, int *prot) {
	uint64_t at = from;
	bool split = false, ours = false;
	struct nv_mapping v;
	struct nv_maps maps;
	if (nv_maps_open(&maps) != 0)
		return false;
	while (at < from + length) {
		if (nv_maps_next(&maps, at, &v) != 0 || v.start > at || (!v.ours && (v.shared || v.file)))
			break;
		split = split || v.end < from + length;
		ours = ours || v.ours;
		*prot = v.prot;
		at = v.end;
	}
	nv_maps_close(&maps);
	return split && ours && at >= from + length;
}

/* Moves a range of several mappings, one by one, to a place that was reserved. */
static bool move_all(uint64_t from, uint64_t length, uint64_t to) {
	uint64_t at = from;
	struct nv_mapping v;
	struct nv_maps maps;
	bool good = nv_maps_open(&maps) == 0;
	if (!good)
		return false;
	while (good && at < from + length) {
		uint64_t end;
		good = nv_maps_next(&maps, at, &v) == 0 && v.start <= at;
		end = v.end < from + length ? v.end : from + length;
		good = good && raw_mremap(at, end - at, end - at, MREMAP_MAYMOVE | MREMAP_FIXED,
		                          to + (at - from)) != UINT64_MAX;
		at = end;
	}
	nv_maps_close(&maps);
	return good;
}

/* The kernel moves and enlarges only one mapping. For the program a range is one mapping, also
 * if a part of it was remapped. */
static uint64_t move(uint64_t from, uint64_t length, uint64_t wanted, int flags, uint64_t to, int prot) {
	int how = MAP_PRIVATE | MAP_ANONYMOUS | (flags & MREMAP_FIXED ? MAP_FIXED : 0);
	uint64_t kept = length < wanted ? length : wanted;
	void *at;
	if (!(flags & MREMAP_MAYMOVE) || (flags & MREMAP_DONTUNMAP)) {
		/* The kernel could not enlarge it in place either. */
		errno = flags & MREMAP_DONTUNMAP ? EINVAL : ENOMEM;
		return UINT64_MAX;
	}
	at = nv_sys_mmap((void *)(uintptr_t)(flags & MREMAP_FIXED ? to : 0), wanted, prot, how, -1, 0);
	if (at == MAP_FAILED)
		return UINT64_MAX;
	if (!move_all(from, kept, (uint64_t)(uintptr_t)at)) {
		errno = ENOMEM;
		return UINT64_MAX;
	}
	if (kept < length)
		munmap((void *)(uintptr_t)(from + kept), length - kept);
	return (uint64_t)(uintptr_t)at;
}

bool nv_mremap(uint64_t *result, uint64_t from, uint64_t length, uint64_t wanted, int flags, uint64_t to) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int prot = 0;
	if (!nv_has_moved() || length == 0)
		return false;
	*result = raw_mremap(from, length, wanted, flags, to);
	if (*result != UINT64_MAX || errno != EFAULT)
		return true;
	length = (length + page - 1) & ~(uint64_t)(page - 1);
	wanted = (wanted + page - 1) & ~(uint64_t)(page - 1);
	if (from % page || wanted == 0 || from + length < from || !is_split(from, length, &prot)) {
		errno = EFAULT;
		return true;
	}
	*result = move(from, length, wanted, flags, to, prot);
	return true;
}

NV_EXPORT int madvise(void *addr, size_t length, int advice) {
	int result;
	return nv_madvise(&result, (uint64_t)(uintptr_t)addr, length, advice)
	           ? result : NV_REAL(madvise)(addr, length, advice);
}

NV_EXPORT void *mremap(void *from, size_t length, size_t wanted, int flags, ...) {
	uint64_t result;
	va_list args;
	void *to;
	va_start(args, flags); /* the C library reads it too, also if it was not passed */
	to = va_arg(args, void *);
	va_end(args);
	return nv_mremap(&result, (uint64_t)(uintptr_t)from, length, wanted, flags, (uint64_t)(uintptr_t)to)
	           ? (void *)(uintptr_t)result
	           : NV_REAL(mremap)(from, length, wanted, flags, to);
}
