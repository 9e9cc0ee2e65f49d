/* Remaps pages of the program into shared memory: copies the pages there and maps the copy
 * over them. A store of another thread between these two steps would be lost. So the pages
 * are write-protected meanwhile (userfaultfd), and a thread that stores to them waits in the
 * kernel until the new mapping is in place.
 *
 * The thread that remaps must not store to those pages itself. It writes to its stack, to
 * its thread-local data and to this library's state; a range that overlaps these is refused.
 * The caller has blocked signals. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static long page_size(void) { return sysconf(_SC_PAGESIZE); }

/* A bare system call, because this library wraps ioctl. */
static int sys_ioctl(int fd, unsigned long request, void *arg) {
	return (int)NV_SYSCALL(SYS_ioctl, fd, request, arg);
}

/* Opens a userfaultfd that can write-protect pages. It needs no privilege, because it handles
 * only faults of user code. */
static int open_uffd(void) {
	struct uffdio_api api;
	int fd = (int)NV_SYSCALL(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY), error;
	if (fd < 0)
		return -1;
	memset(&api, 0, sizeof api);
	api.api = UFFD_API;
	api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	if (sys_ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

bool nv_has_uffd(void) {
	size_t page = (size_t)page_size();
	void *at = nv_sys_mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool populates;
	int fd;
	if (at == MAP_FAILED)
		return false;
	populates = madvise(at, page, MADV_POPULATE_WRITE) == 0;
	munmap(at, page);
	fd = populates ? open_uffd() : -1;
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Write-protects pages. Pages that are not present cannot be protected, so they are made
 * present first. This fails, and remapping fails with it, if the program may not write to
 * the pages. */
static int protect(int uffd, void *at, size_t length) {
	struct uffdio_register reg;
	struct uffdio_writeprotect wp;
	if (madvise(at, length, MADV_POPULATE_WRITE) != 0)
		return errno;
	memset(&reg, 0, sizeof reg);
	reg.range.start = (uint64_t)(uintptr_t)at;
	reg.range.len = length;
	reg.mode = UFFDIO_REGISTER_MODE_WP;
	if (sys_ioctl(uffd, UFFDIO_REGISTER, &reg) != 0)
		return errno;
	memset(&wp, 0, sizeof wp);
	wp.range = reg.range;
	wp.mode = UFFDIO_WRITEPROTECT_MODE_WP;
	return sys_ioctl(uffd, UFFDIO_WRITEPROTECT, &wp) == 0 ? 0 : errno;
}

static bool touches(const void *what, size_t bytes, uint64_t addr, uint64_t length) {
	uint64_t at = (uint64_t)(uintptr_t)what;
	return at < addr + length && addr < at + bytes;
}

/* Reports whether a range overlaps memory that this thread writes while the pages are
 * protected: the stack below this frame, errno, and the state of the process. The memory just
 * above this frame is stack too, and must not become shared with children. */
static bool is_own(const struct nv_process *p, uint64_t addr, uint64_t length) {
	enum { MARGIN = 64 * 1024 };
	const char *frame = __builtin_frame_address(0);
	return touches(frame - MARGIN, 2 * MARGIN, addr, length) || touches(&errno, sizeof errno, addr, length) ||
	       touches(p, sizeof *p, addr, length);
}

/* Returns 0 if the page at addr may be replaced, else EINVAL. Without userfaultfd nothing else
 * has checked what kind of page it is. The page must be present, must not
 * belong to a file and must not be shared. */
static int private_page(uint64_t addr) {
	enum { FILE_OR_SHARED = 61, PRESENT = 63 }; /* bits, Documentation/admin-guide/mm/pagemap.rst */
	uint64_t entry = 0;
	int fd = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, &entry, sizeof entry, (off_t)(addr / (uint64_t)page_size() * sizeof entry));
	if (fd >= 0)
		close(fd);
	return n == sizeof entry && (entry >> PRESENT & 1) && !(entry >> FILE_OR_SHARED & 1) ? 0 : EINVAL;
}

int nv_remap(const struct nv_process *p, uint64_t addr, uint64_t length, int memory, uint64_t offset) {
	size_t page = (size_t)page_size();
	void *at = (void *)(uintptr_t)addr, *copy;
	int uffd, error = 0;
	if (length == 0 || (addr | length | offset) & (page - 1) || addr + length < addr)
		return EINVAL;
	if (is_own(p, addr, length))
		return EBUSY;
	uffd = open_uffd();
	if (uffd < 0 && length > page)
		return EOPNOTSUPP; /* one page is allowed: it has doorbell records, and the server clears
		                      a record again, so a lost store does no harm */
	copy = nv_sys_mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, (off_t)offset);
	if (copy == MAP_FAILED) {
		error = errno;
	} else {
		if (uffd >= 0)
			error = protect(uffd, at, length);
		else
			error = private_page(addr);
		if (error == 0) {
			nv_copy_pages(copy, at, length);
			if (nv_sys_mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, (off_t)offset) ==
			    MAP_FAILED)
				error = errno;
			else
				error = nv_seal(memory);
		}
		munmap(copy, length);
	}
	if (uffd >= 0) {
		struct uffdio_range range = {addr, length};
		sys_ioctl(uffd, UFFDIO_WAKE, &range);
		close(uffd); /* ends the protection, if the old pages are still there, and wakes the threads that wait */
	}
	return error;
}
