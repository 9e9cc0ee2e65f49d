/* Remaps pages of the program into shared memory: copies the pages there and maps the copy
 * over them. A store of another thread between these two steps would be lost. So the pages
 * are write-protected meanwhile (protect.c), and a thread that stores to them waits in the
 * kernel until the new mapping is in place. While a thread is the only one of its process, it
 * protects nothing.
 *
 * This is done piece by piece. The pages of a piece are freed when the copy is mapped over them,
 * so the program's resident memory grows by one piece at most. Pages that the program has not
 * used yet are not copied: the shared memory has zeros there too, without any page.
 *
 * The thread that remaps must not store to those pages itself (movable.c). The caller has
 * blocked signals. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "real.h"

enum { FEW = 2 }; /* pages: to copy so many takes less time than to find out which have been used */
enum { PIECE = 128 }; /* pages: few enough that those freed with one piece are in the cache for the next */

/* The pages that one call remaps, and how. */
struct job {
	int memory;
	struct nv_kind kind;
	struct nv_protector protector; /* fd -1: nothing is protected */
	int pagemap;                   /* -1: cannot be read */
	bool swaps;                    /* the machine has swap space */
	bool writes;                   /* pages may be copied by write, else through a mapping */
	size_t page;
};

/* Stores in used[i] whether the i-th page of a piece has been used. The pages do not change
 * meanwhile. */
static void find_used(const struct job *j, uint64_t addr, size_t pages, bool *used) {
	enum { PRESENT = 63, SWAPPED = 62 }; /* bits, Documentation/admin-guide/mm/pagemap.rst */
	uint64_t entries[PIECE];
	unsigned char resident[PIECE];
	size_t i;
	memset(used, true, pages);
	if (j->kind.again) {
		/* These pages are shared already. The page tables do not have all of them. */
		if (!j->swaps && mincore((void *)(uintptr_t)addr, pages * j->page, resident) == 0)
			for (i = 0; i < pages; i++)
				used[i] = resident[i] & 1;
		return;
	}
	if (j->pagemap < 0 ||
	    pread(j->pagemap, entries, pages * 8, (off_t)(addr / j->page * 8)) != (ssize_t)(pages * 8))
		return;
	for (i = 0; i < pages; i++)
		used[i] = (entries[i] >> PRESENT & 1) || (entries[i] >> SWAPPED & 1);
}

static int write_run(const struct job *j, uint64_t addr, size_t bytes, uint64_t offset) {
	while (bytes > 0) {
		/* Not pwrite, which a sanitizer may have replaced: see nv_copy_pages. */
		ssize_t n = NV_SYSCALL(SYS_pwrite64, j->memory, addr, bytes, offset);
		if (n <= 0)
			return n < 0 ? errno : EIO;
		addr += (uint64_t)n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int copy_run(const struct job *j, uint64_t addr, size_t bytes, uint64_t offset) {
	void *copy;
	if (j->writes)
		return write_run(j, addr, bytes, offset);
	copy = nv_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, j->memory, (off_t)offset);
	if (copy == MAP_FAILED)
		return errno;
	nv_copy_pages(copy, (void *)(uintptr_t)addr, bytes);
	munmap(copy, bytes);
	return 0;
}

static int copy_piece(const struct job *j, uint64_t addr, size_t pages, uint64_t offset) {
	bool used[PIECE];
	size_t first, end;
	int error = 0;
	find_used(j, addr, pages, used);
	for (first = 0; first < pages && error == 0; first = end) {
		for (end = first + 1; end < pages && used[end] == used[first]; end++)
			;
		if (used[first])
			error = copy_run(j, addr + first * j->page, (end - first) * j->page, offset + first * j->page);
	}
	return error;
}

/* pages can be more than PIECE. */
static int move_piece(const struct job *j, uint64_t addr, size_t pages, uint64_t offset) {
	size_t bytes = pages * j->page, done, n;
	int error = 0;
	if (j->protector.fd >= 0)
		error = nv_protect(&j->protector, addr, bytes);
	for (done = 0; done < pages && error == 0; done += n) {
		n = pages - done < PIECE ? pages - done : PIECE;
		error = copy_piece(j, addr + done * j->page, n, offset + done * j->page);
	}
	if (error == 0 && nv_sys_mmap((void *)(uintptr_t)addr, bytes, j->kind.prot, MAP_SHARED | MAP_FIXED,
	                              j->memory, (off_t)offset) == MAP_FAILED)
		error = errno;
	if (error == 0 && j->protector.fd >= 0)
		nv_unprotect(&j->protector, addr, bytes);
	return error;
}

/* Moves the pages. After an error some may have been moved. They are still the program's, with
 * their contents; the only other conclusion is that the memory is not sealed. */
static int move(const struct job *j, uint64_t addr, uint64_t length, uint64_t offset) {
	uint64_t end = addr + length;
	bool locked = j->kind.locked && nv_locked(addr);
	int error = 0;
	if (j->protector.fd >= 0)
		error = nv_protect_range(&j->protector, addr, length);
	nv_moved();
	while (error == 0 && addr < end) {
		size_t pages = (size_t)((end - addr) / j->page);
		if (pages > PIECE && !j->kind.huge) /* of huge pages nothing but the whole can be replaced */
			pages = PIECE;
		error = move_piece(j, addr, pages, offset);
		addr += pages * j->page;
		offset += pages * j->page;
	}
	if (error == 0 && locked)
		/* As before; if the limit is reached, the pages stay unlocked. */
		mlock((void *)(uintptr_t)(end - length), length);
	return error;
}

/* A write beyond the limit on the size of files would raise a signal. */
static bool may_write(void) {
	struct rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

int nv_remap(const struct nv_process *p, uint64_t addr, uint64_t length, int memory, uint64_t offset,
             bool may_stay, bool *heap) {
	struct sysinfo info;
	struct job j;
	int error;
	memset(&j, 0, sizeof j);
	j.page = (size_t)sysconf(_SC_PAGESIZE);
	if (length == 0 || (addr | length | offset) & (j.page - 1) || addr + length < addr)
		return EINVAL;
	error = nv_movable(p, addr, length, may_stay, &j.kind);
	*heap = j.kind.heap;
	if (error)
		return error;
	j.protector.fd = -1;
	if (!j.kind.alone && nv_protector(&j.protector) != 0 && length > j.page)
		return EOPNOTSUPP; /* one page is allowed: it has doorbell records, and the server clears
		                      a record again, so a lost store does no harm */
	j.memory = memory;
	j.writes = may_write();
	j.swaps = sysinfo(&info) != 0 || info.totalswap > 0;
	j.pagemap = -1;
	if (length > FEW * j.page)
		j.pagemap = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	error = move(&j, addr, length, offset);
	if (error == 0)
		error = nv_seal(memory);
	if (j.pagemap >= 0)
		close(j.pagemap);
	if (j.protector.fd >= 0)
		nv_protector_end(&j.protector);
	return error;
}
