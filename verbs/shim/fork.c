/* Forks. Memory that was remapped is shared, so a child would see what its parent stores there,
 * and the parent what the child stores. For pinned memory the kernel copies the pages at a fork
 * (Linux 5.12). Here the child does this: it replaces every remapped range by a private copy
 * before anything else runs in it, and meanwhile the thread that forks waits in the parent.
 *
 * The C library runs the three handlers for fork, forkpty and daemon. Children of vfork and
 * posix_spawn (system, popen) share the parent's whole memory until they execute a program, so
 * nothing is copied for them. A child of a bare clone runs no handler. When it first calls this
 * library, this is noticed, and the child gets its copy then. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "real.h"

enum { PIECE = 4096 }; /* pages that are copied at a time */

/* Whether this process has remapped memory, or has inherited remapped memory and not copied it. */
static bool moved;

void nv_moved(void) { __atomic_store_n(&moved, true, __ATOMIC_RELAXED); }

bool nv_has_moved(void) { return __atomic_load_n(&moved, __ATOMIC_RELAXED); }

/* Copies the pages that have been used. */
static void copy(char *to, char *from, size_t pages, size_t page, bool swaps) {
	unsigned char resident[PIECE];
	size_t i;
	memset(resident, 1, pages);
	if (!swaps)
		mincore(from, pages * page, resident);
	for (i = 0; i < pages; i++)
		if (resident[i] & 1)
			nv_copy_pages(to + i * page, from + i * page, page);
}

/* Replaces one piece of a mapping by a private copy. */
static int replace(char *at, size_t pages, size_t page, int prot, bool swaps) {
	size_t bytes = pages * page;
	char *made = nv_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int error = 0;
	if (made == MAP_FAILED)
		return errno;
	copy(made, at, pages, page, swaps);
	if ((prot != (PROT_READ | PROT_WRITE) && mprotect(made, bytes, prot) != 0) ||
	    NV_SYSCALL(SYS_mremap, made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) !=
	        (long)(uintptr_t)at) {
		error = errno;
		munmap(made, bytes);
	}
	return error;
}

/* Replaces every remapped range of this process, which has a single thread. */
static int replace_all(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct nv_mapping v;
	struct sysinfo info;
	bool swaps = sysinfo(&info) != 0 || info.totalswap > 0;
	struct nv_maps maps;
	uint64_t at = 0;
	int error = nv_maps_open(&maps);
	if (error)
		return error;
	while (error == 0 && nv_maps_next(&maps, at, &v) == 0) {
		at = v.end;
		if (!v.ours)
			continue;
		if (!(v.prot & PROT_READ) && mprotect((void *)(uintptr_t)v.start, v.end - v.start, PROT_READ) != 0)
			error = errno;
		for (at = v.start; error == 0 && at < v.end;) {
			size_t pages = (size_t)((v.end - at) / page);
			if (pages > PIECE)
				pages = PIECE;
			error = replace((char *)(uintptr_t)at, pages, page, v.prot, swaps);
			at += pages * page;
		}
	}
	nv_maps_close(&maps);
	return error;
}

/* Makes this process, a child, independent of its parent's memory. A child that cannot have a
 * copy ends: the kernel would have refused the fork. */
static void separate(void) {
	static int said;
	int error = replace_all();
	if (error) {
		nv_say(&said,
		       "a child of this program ends, because it could not get a copy of registered memory: %s",
		       strerror(error));
		_exit(127);
	}
	__atomic_store_n(&moved, false, __ATOMIC_RELAXED);
}

/* The child writes a byte to this pipe when it has its copy. If the child ends before, the
 * parent reads the end of the pipe. */
static __thread int done[2] = {-1, -1};

void nv_before_fork(void) {
	int error = errno;
	done[0] = done[1] = -1;
	if (nv_has_moved() && pipe2(done, O_CLOEXEC) != 0)
		done[0] = done[1] = -1;
	errno = error;
}

void nv_fork_in_parent(void) {
	int error = errno;
	char byte;
	if (done[0] < 0)
		return;
	close(done[1]);
	while (NV_REAL(read)(done[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(done[0]);
	errno = error;
}

void nv_fork_in_child(void) {
	int error = errno;
	char byte = 0;
	if (!nv_has_moved())
		return;
	separate();
	if (done[0] >= 0) {
		if (write(done[1], &byte, 1) < 0)
			error = errno; /* the parent has ended */
		close(done[0]);
		close(done[1]);
	}
	errno = error;
}

void nv_forked(void) {
	static int said;
	if (!nv_has_moved())
		return;
	separate();
	nv_say(&said,
	       "process %d was made by a system call and not by fork: what it or its parent stored to registered "
	       "memory before this moment is visible to the other",
	       (int)getpid());
}

/* The handlers of fork run in the order in which they were added, and those before a fork in
 * reverse order. This library is loaded early, so that the child's copy is made before
 * other handlers run, and while the parent still has the locks that other handlers have taken. */
__attribute__((__constructor__(101))) static void start(void) {
	if (nv_dir())
		pthread_atfork(nv_before_fork, nv_fork_in_parent, nv_fork_in_child);
}

/* _Fork runs no handlers. */
NV_EXPORT pid_t _Fork(void);
NV_EXPORT pid_t _Fork(void) {
	pid_t pid;
	nv_before_fork();
	pid = NV_REAL(_Fork)();
	if (pid == 0)
		nv_fork_in_child();
	else
		nv_fork_in_parent();
	return pid;
}

bool nv_is_fork(long number, uint64_t first, uint64_t second) {
	if (!nv_has_moved())
		return false;
#ifdef SYS_fork
	if (number == SYS_fork)
		return true;
#endif
	/* With a stack of its own the child does not return here. */
	return number == SYS_clone && !(first & CLONE_VM) && second == 0;
}

struct child {
	int (*run)(void *);
	void *arg;
};

static int begin(void *arg) {
	struct child c = *(struct child *)arg;
	nv_fork_in_child();
	return c.run(c.arg);
}

/* A child of clone that does not share its parent's memory is like one of fork. */
NV_EXPORT int clone(int (*run)(void *), void *stack, int flags, void *arg, ...) {
	struct child c = {run, arg};
	void *parent, *tls, *child;
	va_list args;
	int pid;
	va_start(args, arg); /* the C library reads these three too, however many were passed */
	parent = va_arg(args, void *);
	tls = va_arg(args, void *);
	child = va_arg(args, void *);
	va_end(args);
	if ((flags & CLONE_VM) || !nv_has_moved())
		return NV_REAL(clone)(run, stack, flags, arg, parent, tls, child);
	nv_before_fork();
	pid = NV_REAL(clone)(begin, stack, flags, &c, parent, tls, child);
	nv_fork_in_parent();
	return pid;
}
