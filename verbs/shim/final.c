/* The end of a device, as a program reads it. When a driver goes, the kernel puts DEVICE_FATAL behind the
 * events of each descriptor for asynchronous events, and then ends all descriptors of the device with EIO.
 * A server that is asked to end sends that event itself. One that is killed cannot: its ends of the sockets
 * are closed, which wakes all who wait, and they read the end of file. Here that becomes the event, and EIO
 * after it. poll, epoll and O_NONBLOCK need nothing. */
#include "shim.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#include "real.h"

enum { DEVICE_FATAL = 8 }; /* IBV_EVENT_DEVICE_FATAL */

/* The sockets of a server that ends are closed one after the other: the one with events can be the first. */
enum { PATIENCE = 1000 }; /* milliseconds */

/* Descriptors beyond the last so many end with the end of file. */
enum { MOST = 256 };

struct end {
	uint64_t ino; /* 0: empty. Written last, cleared first */
	uint64_t cookie;
	uint32_t generation;
	uint32_t events;   /* 1: it is for asynchronous events, 0: it is a completion channel */
	uint32_t notified; /* the program has read DEVICE_FATAL */
};

static struct end ends[MOST];
static uint32_t next; /* is overwritten next, modulo MOST */
uint32_t nv_ends;

void nv_final_add(const struct nv_process *p, int fd, bool events) {
	struct nv_identity id;
	struct end *e = &ends[next++ % MOST];
	if (!nv_identify(fd, NULL, &id))
		return;
	__atomic_store_n(&e->ino, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&e->cookie, id.cookie, __ATOMIC_RELAXED);
	__atomic_store_n(&e->generation, p->generation, __ATOMIC_RELAXED);
	__atomic_store_n(&e->events, events, __ATOMIC_RELAXED);
	__atomic_store_n(&e->notified, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&e->ino, id.ino, __ATOMIC_RELEASE);
	__atomic_store_n(&nv_ends, 1, __ATOMIC_RELAXED);
}

static struct end *find(int fd) {
	struct nv_identity id;
	size_t i;
	if (!nv_identify(fd, NULL, &id))
		return NULL;
	for (i = 0; i < MOST; i++)
		if (__atomic_load_n(&ends[i].ino, __ATOMIC_ACQUIRE) == id.ino &&
		    __atomic_load_n(&ends[i].cookie, __ATOMIC_RELAXED) == id.cookie)
			return &ends[i];
	return NULL;
}

/* Reports whether the server has gone over whose connection the descriptor came. Otherwise the program has
 * closed the device, and that is no event. */
static bool gone(const struct end *e) {
	const struct nv_process *p = nv_peek();
	struct pollfd at = {-1, 0, 0};
	int n;
	if (!p || __atomic_load_n(&p->generation, __ATOMIC_RELAXED) !=
	              __atomic_load_n(&e->generation, __ATOMIC_RELAXED))
		return true;
	at.fd = __atomic_load_n(&p->fd, __ATOMIC_RELAXED);
	do
		n = poll(&at, 1, PATIENCE);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

static ssize_t at_end(int fd, void *data, size_t count) {
	struct ib_uverbs_async_event_desc fatal;
	struct end *e = find(fd);
	if (!e || !gone(e))
		return 0;
	memset(&fatal, 0, sizeof fatal);
	fatal.event_type = DEVICE_FATAL;
	if (!__atomic_load_n(&e->events, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&e->notified, __ATOMIC_RELAXED)) {
		errno = EIO;
		return -1;
	}
	if (count < sizeof fatal) {
		errno = EINVAL;
		return -1;
	}
	if (__atomic_exchange_n(&e->notified, 1, __ATOMIC_RELAXED)) {
		errno = EIO; /* another thread has got it */
		return -1;
	}
	memcpy(data, &fatal, sizeof fatal);
	nv_heard();
	return (ssize_t)sizeof fatal;
}

ssize_t nv_final_read(int fd, void *data, size_t count, ssize_t n) {
	struct ib_uverbs_async_event_desc event;
	struct end *e;
	int error = errno;
	if (n == 0 && count > 0) {
		n = at_end(fd, data, count);
		if (n >= 0)
			errno = error;
		return n;
	}
	if (n != (ssize_t)sizeof event)
		return n;
	memcpy(&event, data, sizeof event);
	if (event.event_type != DEVICE_FATAL || event.element != 0)
		return n;
	e = find(fd);
	if (e && __atomic_load_n(&e->events, __ATOMIC_RELAXED)) {
		__atomic_store_n(&e->notified, 1, __ATOMIC_RELAXED);
		nv_heard();
	}
	errno = error;
	return n;
}
