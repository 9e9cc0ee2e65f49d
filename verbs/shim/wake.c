/* Posters wake the device if it sleeps. libmlx5 does not: hardware does not sleep. So this library replaces
 * the functions by which programs post and arm: each calls libmlx5's, loads one word, and writes to an
 * eventfd if the word says so. The device relies on none of this, because programs can post without these
 * functions. A context that gets no place here works as before. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libibverbs.h"
#include "real.h"

typedef int post_send(struct nv_ibv_object *qp, void *wr, void **bad);
typedef int req_notify(struct nv_ibv_object *cq, int solicited);

struct waker {
	struct nv_ibv_context *context; /* NULL: the place is free. Stored last, cleared first */
	const uint64_t *asleep;
	uint64_t last; /* number of the last sleep that this process has ended */
	post_send *post_send;
	req_notify *req_notify;
	int fd;
	struct stat st; /* what fd was */
	char id[32];    /* its eventfd-id: the kernel gives all eventfds one inode */
};

/* Contexts of one process with such functions. Each post searches them; the device finds the work of
 * others by itself, after a nap. */
enum { MOST = 8 };

/* Programs may have 1,024 descriptors by default. */
enum { HIGH = 768 };

static struct waker wakers[MOST];

static struct waker *of(const struct nv_ibv_context *context) {
	struct waker *w;
	for (w = wakers; w < wakers + MOST; w++)
		if (__atomic_load_n(&w->context, __ATOMIC_ACQUIRE) == context)
			return w;
	return NULL;
}

/* Writes what the kernel says of the eventfd fd, its number among all eventfds, into id; "" if it is none. */
static void name_eventfd(int fd, char id[32]) {
	char path[48], text[256], *at;
	ssize_t n;
	int info;
	id[0] = 0;
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	info = (int)NV_SYSCALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return;
	n = NV_SYSCALL(SYS_read, info, text, sizeof text - 1);
	NV_SYSCALL(SYS_close, info);
	text[n < 0 ? 0 : n] = 0;
	at = strstr(text, "eventfd-id:");
	if (at)
		snprintf(id, 32, "%.*s", (int)strcspn(at, "\n"), at);
}

/* A program may have closed all descriptors that it does not know, and have opened others. The check finds
 * that a file of another kind has the number now. It would not find an eventfd of the program's, but the
 * number is so high that programs seldom reach it. */
static __attribute__((__noinline__)) void signal_device(struct waker *w, uint64_t sleep) {
	static const uint64_t one = 1;
	struct stat st;
	int error = errno;
	if (NV_SYSCALL(SYS_fstat, w->fd, &st) != 0 || st.st_ino != w->st.st_ino || st.st_dev != w->st.st_dev ||
	    NV_SYSCALL(SYS_write, w->fd, &one, sizeof one) == sizeof one)
		/* Not before the write, because others rely on it. */
		__atomic_store_n(&w->last, sleep, __ATOMIC_RELAXED);
	errno = error;
}

static inline void wake(struct waker *w) {
	uint64_t sleep = __atomic_load_n(w->asleep, __ATOMIC_ACQUIRE);
	if (__builtin_expect(sleep == NV_NAPS, 0)) {
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		sleep = __atomic_load_n(w->asleep, __ATOMIC_ACQUIRE);
		if (sleep == NV_NAPS)
			return;
	}
	if (__builtin_expect(sleep != 0, 0) && sleep != __atomic_load_n(&w->last, __ATOMIC_RELAXED))
		signal_device(w, sleep);
}

/* libmlx5's functions, which are the same for all contexts: for a context that has no place any more. */
static post_send *any_post_send;
static req_notify *any_req_notify;

static int our_post_send(struct nv_ibv_object *qp, void *wr, void **bad) {
	struct waker *w = of(qp->context);
	int error = (w ? w->post_send : any_post_send)(qp, wr, bad);
	if (w)
		wake(w);
	return error;
}

static int our_req_notify(struct nv_ibv_object *cq, int solicited) {
	struct waker *w = of(cq->context);
	int error = (w ? w->req_notify : any_req_notify)(cq, solicited);
	if (w)
		wake(w);
	return error;
}

/* libmlx5 has one function for all queue pairs in RTS, and another one for the others. */
static int (*wr_complete)(struct nv_ibv_qp_ex *qp);

static int our_wr_complete(struct nv_ibv_qp_ex *qp) {
	struct waker *w = of(qp->object.context);
	int error = wr_complete(qp);
	if (w)
		wake(w);
	return error;
}

void nv_wake_queue(struct nv_ibv_qp_ex *qp) {
	int (*theirs)(struct nv_ibv_qp_ex *) = qp->wr_complete, (*known)(struct nv_ibv_qp_ex *) = NULL;
	if (qp->numbers[NV_QP_STATE] != NV_QPS_RTS || theirs == our_wr_complete || !of(qp->object.context))
		return;
	if (__atomic_compare_exchange_n(&wr_complete, &known, theirs, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
	    known == theirs)
		qp->wr_complete = our_wr_complete;
}

/* Returns a high number for a descriptor, which is closed; the descriptor itself if there is none. */
static int raised(int fd) {
	int high = fd < 0 ? -1 : (int)NV_SYSCALL(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* Asks the server for the word and the eventfd. Returns 0 or an errno. */
static int ask(struct nv_process *p, const struct nv_context *c, struct waker *w) {
	int memory, error;
	void *page;
	if (!nv_connected(p) || c->generation != p->generation || p->minor < 2)
		return EOPNOTSUPP;
	nv_begin(p, NV_WAKE, c->id.ino);
	error = nv_ask(p);
	if (error)
		return error;
	memory = nv_take_fd(p, 0);
	w->fd = nv_take_fd(p, 1);
	nv_close_fds(p);
	page = nv_sys_mmap(NULL, NV_STATUS_BYTES, PROT_READ, MAP_SHARED, memory, 0);
	if (memory >= 0)
		close(memory);
	w->asleep = (const uint64_t *)(const void *)((uint8_t *)page + NV_ASLEEP);
	w->fd = raised(w->fd);
	name_eventfd(w->fd, w->id);
	if (page != MAP_FAILED && w->id[0] && NV_SYSCALL(SYS_fstat, w->fd, &w->st) == 0)
		return 0;
	if (page != MAP_FAILED)
		munmap(page, NV_STATUS_BYTES);
	if (w->fd >= 0)
		close(w->fd);
	return EPROTO;
}

static void release(struct waker *w) {
	char id[32];
	munmap((uint8_t *)(uintptr_t)w->asleep - NV_ASLEEP, NV_STATUS_BYTES);
	name_eventfd(w->fd, id);
	if (strcmp(id, w->id) == 0) /* otherwise it is the program's, see signal_device */
		close(w->fd);
}

void nv_wake_open(struct nv_ibv_context *context) {
	struct nv_entry entry;
	struct nv_process *p = nv_enter(&entry);
	struct nv_context c;
	struct waker *w;
	nv_ibv_function **operations = context->operations;
	if (!p)
		return;
	w = of(context);
	if (w && operations[NV_OP_POST_SEND] != (nv_ibv_function *)our_post_send) {
		/* An earlier context at this address was closed without our ibv_close_device, as by a program that
		 * takes the function from a handle of dlopen. */
		__atomic_store_n(&w->context, NULL, __ATOMIC_RELEASE);
		release(w);
		w = NULL;
	}
	if (!w && (w = of(NULL)) && nv_context_of(context->cmd_fd, NULL, &c) && ask(p, &c, w) == 0) {
		w->last = 0;
		w->post_send = (post_send *)operations[NV_OP_POST_SEND];
		w->req_notify = (req_notify *)operations[NV_OP_REQ_NOTIFY_CQ];
		any_post_send = w->post_send;
		any_req_notify = w->req_notify;
		operations[NV_OP_POST_SEND] = (nv_ibv_function *)our_post_send;
		operations[NV_OP_REQ_NOTIFY_CQ] = (nv_ibv_function *)our_req_notify;
		__atomic_store_n(&w->context, context, __ATOMIC_RELEASE);
	}
	nv_leave(p, &entry, 0);
}

void nv_wake_close(struct nv_ibv_context *context) {
	struct nv_entry entry;
	struct waker *w = context ? of(context) : NULL;
	struct nv_process *p = w ? nv_enter(&entry) : NULL;
	if (!p)
		return;
	/* If the program cannot close the device, it goes on posting. */
	context->operations[NV_OP_POST_SEND] = (nv_ibv_function *)w->post_send;
	context->operations[NV_OP_REQ_NOTIFY_CQ] = (nv_ibv_function *)w->req_notify;
	__atomic_store_n(&w->context, NULL, __ATOMIC_RELEASE);
	release(w);
	nv_leave(p, &entry, 0);
}
