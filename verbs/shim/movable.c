/* Which pages of the program may be moved into shared memory. Memory that is refused here stays
 * where it is, and the kernel copies it for the engine. */
#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

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

/* A directory has a link for itself, one in its parent and one from each of its directories. */
bool nv_alone(void) {
	struct stat st;
	return NV_SYSCALL(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) == 0 && st.st_nlink == 3;
}

/* Reports whether the range from addr on, in mapping v, belongs to the stack or to the
 * thread-local data of a thread. The kernel does not know the stacks of threads. It knows each
 * thread's list of robust mutexes, which the C library keeps at the end of the stack, above
 * the thread-local data. Below a stack there is a page without access, so a range of the same
 * mapping below the list is stack. The main thread has a stack elsewhere, named [stack]. */
static bool is_stack(const struct nv_mapping *v, uint64_t addr, uint64_t length) {
	enum { BELOW = 16 * 1024, ABOVE = 1024 }; /* thread-local data, and the rest of struct pthread */
	struct room { /* struct linux_dirent64 */
		uint64_t ino;
		int64_t off;
		uint16_t size;
		uint8_t type;
		char name[];
	};
	char room[2048] __attribute__((__aligned__(8)));
	int dir = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool is = dir < 0;
	long n, at;
	while (!is && (n = NV_SYSCALL(SYS_getdents64, dir, room, sizeof room)) > 0)
		for (at = 0; at < n && !is; at += ((struct room *)(room + at))->size) {
			pid_t thread = (pid_t)strtol(((struct room *)(room + at))->name, NULL, 10);
			void *list = NULL;
			size_t size;
			uint64_t l;
			if (thread <= 0 || NV_SYSCALL(SYS_get_robust_list, thread, &list, &size) != 0 || !list)
				continue;
			l = (uint64_t)(uintptr_t)list;
			is = touches((char *)list - BELOW, BELOW + ABOVE, addr, length) ||
			     (thread != getpid() && l >= v->start && l < v->end && addr <= l);
		}
	if (dir >= 0)
		close(dir);
	return is;
}

/* Stores in *value the number of KiB in a line of /proc/self/status. */
static void status(const char *text, const char *name, unsigned long *value) {
	const char *at = strstr(text, name);
	*value = at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

/* Remembers how the pages may be used. Returns false if they have to be left where they are: they cannot be
 * read and written, or not all in the same way. Pages that can be executed too are those of a program that
 * makes code; under valgrind, the whole heap. */
static bool keep_prot(struct nv_kind *kind, int prot) {
	const int both = PROT_READ | PROT_WRITE;
	if (kind->prot == 0)
		kind->prot = prot;
	return kind->prot == prot && (prot & both) == both;
}

int nv_movable(const struct nv_process *p, uint64_t addr, uint64_t length, bool may_stay,
               struct nv_kind *kind) {
	struct nv_mapping v;
	struct nv_maps maps;
	uint64_t at = addr;
	bool whole;
	char text[4096];
	ssize_t n;
	int fd, error;
	memset(kind, 0, sizeof *kind);
	if (is_own(p, addr, length))
		return EBUSY;
	if (may_stay && nv_has_gpu())
		return EXDEV;
	if (nv_pinned(p, addr, length))
		return EADDRNOTAVAIL;
	kind->heap = nv_in_heap(p, addr, length, &whole);
	if (may_stay && !whole)
		return EADDRINUSE;
	kind->alone = nv_alone();
	error = nv_maps_open(&maps);
	if (error)
		return error;
	while (error == 0 && at < addr + length) {
		error = nv_maps_next(&maps, at, &v);
		if (error == 0 && v.start > at)
			error = EFAULT;
		else if (error == 0 && !keep_prot(kind, v.prot))
			error = EOPNOTSUPP;
		else if (error == 0 && v.huge && !may_stay)
			kind->huge = true;
		else if (error == 0 && !v.ours && (v.shared || v.file))
			error = EOPNOTSUPP;
		else if (error == 0 && may_stay && !kind->alone && is_stack(&v, addr, length))
			error = EBUSY;
		kind->again = kind->again || v.ours;
		at = v.end;
	}
	nv_maps_close(&maps);
	if (error)
		return error;
	fd = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : NV_REAL(read)(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return EOPNOTSUPP;
	text[n] = 0;
	status(text, "\nVmLck:", &kind->locked);
	status(text, "\nVmPin:", &kind->pinned);
	/* Another part of the kernel has pinned memory of this process, for example io_uring its registered
	 * buffers. It is not known which memory. Pages that are pinned must not be replaced. */
	return may_stay && kind->pinned ? ETXTBSY : 0;
}
