/* Write-protects pages of the program (userfaultfd): a thread that stores to such a page waits
 * in the kernel until nv_unprotect. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12) /* Linux 5.19 */
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13) /* Linux 6.4 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static int control(int fd, unsigned long request, void *arg) {
	return NV_SYSCALL(SYS_ioctl, fd, request, arg) == 0 ? 0 : errno;
}

static int with(int flags, uint64_t features) {
	struct uffdio_api api;
	int fd = (int)NV_SYSCALL(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags), error;
	if (fd < 0)
		return -1;
	memset(&api, 0, sizeof api);
	api.api = UFFD_API;
	api.features = features;
	error = control(fd, UFFDIO_API, &api);
	if (error == 0)
		return fd;
	close(fd);
	errno = error;
	return -1;
}

/* A process without privileges may protect pages only from its own code: if a system call of
 * another thread stores to a protected page, that call fails with EFAULT. So a userfaultfd
 * that makes such calls wait too is tried first.
 *
 * valgrind runs one thread at a time: if one waited in the kernel at a store, no other could
 * remove the protection. */
int nv_protector(struct nv_protector *u) {
	static const uint64_t features[] = {
	    UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_WP_UNPOPULATED,
	    UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	    UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	size_t i;
	int flags = 0;
	if (nv_in_valgrind())
		return ENOSYS;
	for (i = 0; i < sizeof features / sizeof *features; i++) {
		u->fd = with(flags, features[i]);
		if (u->fd < 0 && errno == EPERM && flags == 0) {
			flags = UFFD_USER_MODE_ONLY;
			u->fd = with(flags, features[i]);
		}
		if (u->fd >= 0) {
			u->populates = !(features[i] & UFFD_FEATURE_WP_UNPOPULATED);
			return 0;
		}
	}
	return errno;
}

void nv_protector_end(struct nv_protector *u) {
	close(u->fd); /* this ends the protection of all pages, and wakes the threads that wait */
	u->fd = -1;
}

int nv_protect_range(const struct nv_protector *u, uint64_t addr, uint64_t length) {
	struct uffdio_register reg;
	memset(&reg, 0, sizeof reg);
	reg.range.start = addr;
	reg.range.len = length;
	reg.mode = UFFDIO_REGISTER_MODE_WP;
	return control(u->fd, UFFDIO_REGISTER, &reg);
}

int nv_protect(const struct nv_protector *u, uint64_t addr, uint64_t length) {
	struct uffdio_writeprotect wp;
	/* Before Linux 6.4, pages that are not present cannot be protected. */
	if (u->populates && madvise((void *)(uintptr_t)addr, length, MADV_POPULATE_WRITE) != 0)
		return errno;
	memset(&wp, 0, sizeof wp);
	wp.range.start = addr;
	wp.range.len = length;
	wp.mode = UFFDIO_WRITEPROTECT_MODE_WP;
	return control(u->fd, UFFDIO_WRITEPROTECT, &wp);
}

void nv_unprotect(const struct nv_protector *u, uint64_t addr, uint64_t length) {
	struct uffdio_range range = {addr, length};
	control(u->fd, UFFDIO_WAKE, &range);
}

bool nv_has_uffd(void) {
	struct nv_protector u;
	if (nv_protector(&u) != 0)
		return false;
	close(u.fd);
	return true;
}
