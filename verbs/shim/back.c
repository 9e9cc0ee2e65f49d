/* Makes moved pages the program's own again. A store of another thread between the copy and the
 * new mapping would be lost, so the pages are write-protected meanwhile, as in remap.c. */
#include "shim.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

enum { PIECE = 512 }; /* pages */

static bool back(const struct nv_protector *u, const struct nv_mapping *v, uint64_t at, uint64_t bytes) {
	void *made = nv_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool good = made != MAP_FAILED;
	if (!good)
		return false;
	if (u->fd >= 0)
		good = nv_protect_range(u, at, bytes) == 0 && nv_protect(u, at, bytes) == 0;
	if (good)
		nv_copy_pages(made, (const void *)(uintptr_t)at, bytes);
	if (good && v->prot != (PROT_READ | PROT_WRITE))
		good = mprotect(made, bytes, v->prot) == 0;
	good = good && NV_SYSCALL(SYS_mremap, made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == (long)at;
	if (u->fd >= 0)
		nv_unprotect(u, at, bytes);
	if (!good)
		munmap(made, bytes);
	return good;
}

void nv_back(uint64_t addr, uint64_t length) {
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = addr + length;
	struct nv_protector u = {-1, false};
	struct nv_mapping v;
	struct nv_maps maps;
	bool good = true;
	if ((addr | length) % page || end < addr || (!nv_alone() && nv_protector(&u) != 0) ||
	    nv_maps_open(&maps) != 0)
		return;
	while (good && addr < end && nv_maps_next(&maps, addr, &v) == 0 && v.start < end) {
		uint64_t at = v.start > addr ? v.start : addr, to = v.end < end ? v.end : end;
		for (; good && v.ours && (v.prot & PROT_READ) && at < to; at += PIECE * page)
			good = back(&u, &v, at, to - at < PIECE * page ? to - at : PIECE * page);
		addr = to;
	}
	nv_maps_close(&maps);
	if (u.fd >= 0)
		nv_protector_end(&u);
}
