/* The state of this process, in memory that the kernel clears in a child (MADV_WIPEONFORK).
 *
 * A child begins with zeros. They mean that there is no connection and that the lock is free,
 * whatever other threads of the parent were doing at the fork. So no lock has to be held
 * across a fork, and no handler of pthread_atfork is needed; a bare clone would not run one.
 * A child that shares its parent's memory (vfork) is recognised by its process number and
 * refused. */
#include "shim.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static struct nv_process *process;

/* Returns the state. If two threads make it at the same time, both use that of the first. */
static struct nv_process *state(void) {
	static int said;
	struct nv_process *p = __atomic_load_n(&process, __ATOMIC_ACQUIRE), *made;
	void *at;
	if (p)
		return p;
	at = nv_sys_mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
	                 0);
	if (at == MAP_FAILED)
		return NULL;
	if (madvise(at, sizeof *p, MADV_WIPEONFORK) != 0) {
		nv_say(&said, "MADV_WIPEONFORK is needed, Linux 4.14 or later");
		munmap(at, sizeof *p);
		errno = EIO;
		return NULL;
	}
	made = at;
	made->pid = getpid();
	if (__atomic_compare_exchange_n(&process, &p, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	munmap(made, sizeof *made);
	return p;
}

/* Made here, and not by a child of vfork: the child's number would stay in its parent's memory. */
__attribute__((__constructor__(102))) static void start(void) {
	if (nv_dir())
		state();
}

struct nv_process *nv_peek(void) { return __atomic_load_n(&process, __ATOMIC_ACQUIRE); }

struct nv_process *nv_enter(struct nv_entry *e) {
	struct nv_process *p;
	sigset_t all;
	pid_t pid = getpid(), owner;
	e->error = errno;
	p = state();
	if (!p)
		return NULL;
	owner = __atomic_load_n(&p->pid, __ATOMIC_RELAXED);
	if (owner == 0) { /* forked */
		__atomic_store_n(&p->pid, pid, __ATOMIC_RELAXED);
		nv_forked();
	}
	if (owner != 0 && owner != pid) {
		errno = EIO;
		return NULL;
	}
	/* Signals are blocked before the lock is taken: a signal handler that called this
	 * library while its own thread has the lock would wait for ever. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &e->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &e->cancel);
	nv_quiet(1);
	pthread_mutex_lock(&p->lock); /* a lock of zeros is free, in glibc and in musl */
	return p;
}

int nv_leave(struct nv_process *p, const struct nv_entry *e, int error) {
	int ignored;
	pthread_mutex_unlock(&p->lock);
	nv_quiet(-1);
	pthread_setcancelstate(e->cancel, &ignored);
	errno = error ? error : e->error;
	sigprocmask(SIG_SETMASK, &e->signals, NULL);
	return error ? -1 : 0;
}
