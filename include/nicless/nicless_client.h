/*
 * A client of a nicless engine in another process. It requests memory, keys and queues
 * by the control protocol (docs/CONTROL.md). Only one thread at a time may use a
 * client. sq.h, rq.h and cq.h say which threads may use its queues.
 *
 * Every function returns 0 or a negative errno. For an error it also writes a sentence
 * to client.error, which names the refused value and the limit. No function prints or
 * aborts.
 *
 *   struct nicless_client c;
 *   if (nicless_connect(&c, "/run/user/1000/nicless.sock", "my program"))
 *           return report(c.error);
 *
 * Include this header before those of the C library, or define _GNU_SOURCE, because
 * sealing memory is not standard C. Host code only.
 */
#ifndef NICLESS_CLIENT_H
#define NICLESS_CLIENT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef F_ADD_SEALS
#error "nicless: include nicless_client.h or nicless_verbs.h before the headers of the C library, or define _GNU_SOURCE there"
#endif

#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#include "control.h"
#include "cq.h"
#include "post.h"
#include "reason.h"

/* Seconds after which a request fails that the engine has not taken or not answered. */
enum { NICLESS_PATIENCE = 10 };

/* The most bytes of status page and reasons that a client maps. This version of the engine has 68 KiB. */
enum { NICLESS_MOST_STATUS = 1 << 20 };

struct nicless_client {
	int fd; /* -1: not connected */
	uint64_t tag;
	struct nicless_welcome device;
	uint8_t *uar;           /* the UAR pages, of which there are device.uar_pages */
	const uint64_t *status; /* the status page, and the ring of reasons after it */
	size_t status_size;     /* bytes of both */
	uint32_t registers;     /* number of doorbell registers given to queue pairs so far */
	char error[600];
};

#if defined(__GNUC__)
__attribute__((__format__(__printf__, 3, 4)))
#endif
static inline int nicless_fail(struct nicless_client *c, int error, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(c->error, sizeof c->error, format, args);
	va_end(args);
	return error;
}

/* Reports that a socket call has failed and the connection is lost. */
static inline int nicless_lost(struct nicless_client *c, int error, const char *during) {
	if (error == 0 || error == ECONNRESET || error == EPIPE)
		return nicless_fail(c, -ECONNRESET, "the engine has closed the connection");
	return nicless_fail(c, -error, "%s: %s", during, strerror(error));
}

/* Returns the seconds of the monotonic clock. */
static inline time_t nicless_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/*
 * Returns whether a failed socket call should be repeated, because a signal
 * interrupted it. Each repeated call begins a new timeout. Therefore a call is
 * repeated only until NICLESS_PATIENCE seconds after the time in begun.
 */
static inline int nicless_again(time_t begun) {
	if (errno != EINTR)
		return 0;
	if (nicless_now() - begun <= NICLESS_PATIENCE)
		return 1;
	errno = EAGAIN;
	return 0;
}

/* Sends a request. */
static inline int nicless_send(struct nicless_client *c, uint16_t op, const void *payload, size_t size) {
	struct nicless_header h;
	struct iovec iov[2];
	struct msghdr m;
	time_t begun = nicless_now();
	ssize_t n;
	h.op = op;
	h.flags = 0;
	h.size = (uint32_t)size;
	h.tag = ++c->tag;
	iov[0].iov_base = &h;
	iov[0].iov_len = sizeof h;
	iov[1].iov_base = (void *)(uintptr_t)payload;
	iov[1].iov_len = size;
	memset(&m, 0, sizeof m);
	m.msg_iov = iov;
	m.msg_iovlen = 2;
	do
		n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
	while (n < 0 && nicless_again(begun));
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return nicless_fail(c, -ETIMEDOUT, "the engine has not taken a request in %d seconds",
		                    NICLESS_PATIENCE);
	return n < 0 ? nicless_lost(c, errno, "request to the engine") : 0;
}

/* Receives one datagram and at most two descriptors. If fewer than two come, the others in fds are -1. */
static inline int nicless_receive(struct nicless_client *c, uint8_t *in, size_t *got, int fds[2]) {
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov;
	struct msghdr m;
	struct cmsghdr *r;
	time_t begun = nicless_now();
	ssize_t n;
	iov.iov_base = in;
	iov.iov_len = NICLESS_MAX_MESSAGE;
	memset(&m, 0, sizeof m);
	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	m.msg_control = control.room;
	m.msg_controllen = sizeof control.room;
	fds[0] = fds[1] = -1;
	do
		n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && nicless_again(begun));
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return nicless_fail(c, -ETIMEDOUT, "the engine has not answered in %d seconds", NICLESS_PATIENCE);
	if (n < 0)
		return nicless_lost(c, errno, "answer of the engine");
	for (r = CMSG_FIRSTHDR(&m); r; r = CMSG_NXTHDR(&m, r))
		if (r->cmsg_level == SOL_SOCKET && r->cmsg_type == SCM_RIGHTS) {
			size_t bytes = r->cmsg_len - CMSG_LEN(0);
			memcpy(fds, CMSG_DATA(r), bytes < 2 * sizeof(int) ? bytes : 2 * sizeof(int));
		}
	if (n == 0)
		return nicless_lost(c, 0, "");
	*got = (size_t)n;
	return m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)
		? nicless_fail(c, -EPROTO, "the engine's answer is too long: more than %d bytes or two descriptors",
	                       NICLESS_MAX_MESSAGE)
		: 0;
}

static inline void nicless_close_fds(int fds[2]) {
	int i;
	for (i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* Returns the negative errno that is nearest to a refusal code. */
static inline int nicless_refused(uint32_t code) {
	static const int as[] = {EPROTO, EINVAL, ENOENT, EBUSY, ENOSPC, EINVAL, EPROTONOSUPPORT, EOPNOTSUPP,
	                         ENOMEM};
	return code < sizeof as / sizeof *as ? -as[code] : -EPROTO;
}

/*
 * Checks the answer to request op. `got` is the length of the answer, and `size` is the length that
 * its payload must have.
 */
static inline int nicless_judge(struct nicless_client *c, uint16_t op, const uint8_t *in, size_t got,
                                size_t size) {
	struct nicless_header h;
	struct nicless_refusal r;
	if (got < sizeof h)
		return nicless_fail(c, -EPROTO, "answer of %zu bytes to request %u; a header alone has %d", got, op,
		                    NICLESS_HEADER);
	memcpy(&h, in, sizeof h);
	got -= sizeof h;
	if (h.size != got)
		return nicless_fail(c, -EPROTO, "answer to request %u: the header says %u bytes of payload, %zu came",
		                    op, h.size, got);
	if (h.op != op || h.tag != c->tag || !(h.flags & NICLESS_FLAG_ANSWER))
		return nicless_fail(c, -EPROTO,
		                    "answer with operation %u, tag %llu, flags %u to request %u, tag %llu: "
		                    "not an engine of this protocol",
		                    h.op, (unsigned long long)h.tag, h.flags, op, (unsigned long long)c->tag);
	if (h.flags & NICLESS_FLAG_REFUSED) {
		if (got < sizeof r)
			return nicless_fail(c, -EPROTO, "refusal of %zu bytes, at least %zu are needed", got, sizeof r);
		memcpy(&r, in + sizeof h, sizeof r);
		return nicless_fail(c, nicless_refused(r.code), "the engine refuses: %.*s", (int)(got - sizeof r),
		                    (const char *)in + sizeof h + sizeof r);
	}
	if (got != size)
		return nicless_fail(c, -EPROTO, "answer to request %u with %zu bytes of payload, %zu are needed", op,
		                    got, size);
	return 0;
}

/*
 * Sends one request and receives its answer. After a socket error or a malformed
 * answer the connection is unusable. A refusal changes nothing.
 */
static inline int nicless_call(struct nicless_client *c, uint16_t op, const void *request, size_t size,
                               void *answer, size_t answer_size, int fds[2]) {
	uint8_t in[NICLESS_MAX_MESSAGE];
	size_t got = 0;
	int error;
	fds[0] = fds[1] = -1;
	if (c->fd < 0)
		return nicless_fail(c, -ENOTCONN, "request %u on a client that is not connected", op);
	if ((error = nicless_send(c, op, request, size)) != 0)
		return error;
	if ((error = nicless_receive(c, in, &got, fds)) == 0)
		error = nicless_judge(c, op, in, got, answer_size);
	if (error) {
		nicless_close_fds(fds);
		return error;
	}
	if (answer_size)
		memcpy(answer, in + NICLESS_HEADER, answer_size);
	return 0;
}

/* Sends a request whose answer has no descriptor. */
static inline int nicless_ask(struct nicless_client *c, uint16_t op, const void *request, size_t size,
                              void *answer, size_t answer_size) {
	int fds[2], error = nicless_call(c, op, request, size, answer, answer_size, fds);
	if (error == 0 && fds[0] >= 0) {
		nicless_close_fds(fds);
		return nicless_fail(c, -EPROTO, "answer to request %u with a descriptor; it brings none", op);
	}
	return error;
}

/*
 * Ends the connection, and with it all objects that were made through it. Regions stay
 * mapped until nicless_region_close. Does nothing if there is no connection.
 */
static inline void nicless_close(struct nicless_client *c) {
	if (c->uar)
		munmap(c->uar, (size_t)c->device.uar_pages * NICLESS_UAR_PAGE);
	if (c->status)
		munmap((void *)(uintptr_t)c->status, c->status_size);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->uar = 0;
	c->status = 0;
}

/*
 * Maps all memory of a descriptor and seals it, so that no process can map it for
 * writing again or remove pages from it. The engine does not use memory that is not sealed.
 */
static inline int nicless_map_sealed(struct nicless_client *c, const char *what, int fd, size_t size,
                                     void **at) {
	if (lseek(fd, 0, SEEK_END) < (off_t)size)
		return nicless_fail(c, -EPROTO, "the engine's descriptor of %s is shorter than %zu bytes", what,
		                    size);
	*at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*at == MAP_FAILED)
		return nicless_fail(c, -errno, "map %s of %zu bytes: %s", what, size, strerror(errno));
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
		int error = errno;
		munmap(*at, size);
		return nicless_fail(c, -error, "seal %s: %s", what, strerror(error));
	}
	return 0;
}

/* Maps the pages whose descriptors came with the welcome. */
static inline int nicless_map(struct nicless_client *c, const int fds[2]) {
	void *at = 0;
	off_t size;
	int error;
	if (fds[0] < 0 || fds[1] < 0)
		return nicless_fail(c, -EPROTO, "the engine's welcome came with %d descriptors, 2 are needed",
		                    fds[0] >= 0);
	if (c->device.uar_pages < 1 || c->device.uar_pages > 1 << 16)
		return nicless_fail(c, -EPROTO, "the engine gives %u UAR pages; 1 to %d make sense",
		                    c->device.uar_pages, 1 << 16);
	error = nicless_map_sealed(c, "UAR pages", fds[0], (size_t)c->device.uar_pages * NICLESS_UAR_PAGE, &at);
	if (error)
		return error;
	c->uar = (uint8_t *)at;
	size = lseek(fds[1], 0, SEEK_END);
	if (size < NICLESS_UAR_PAGE)
		return nicless_fail(c, -EPROTO, "the engine's descriptor of the status page is shorter than %d bytes",
		                    NICLESS_UAR_PAGE);
	c->status_size = size < NICLESS_MOST_STATUS ? (size_t)size : (size_t)NICLESS_MOST_STATUS;
	at = mmap(0, c->status_size, PROT_READ, MAP_SHARED, fds[1], 0);
	if (at == MAP_FAILED)
		return nicless_fail(c, -errno, "map the status page: %s", strerror(errno));
	c->status = (const uint64_t *)at;
	return 0;
}

/* Makes the first request, whose answer brings the version, the limits and the UAR pages. */
static inline int nicless_greet(struct nicless_client *c, const char *name) {
	uint8_t request[NICLESS_MAX_PAYLOAD];
	struct nicless_hello h;
	size_t n = strlen(name);
	int fds[2], error;
	h.magic = NICLESS_MAGIC;
	h.major = NICLESS_MAJOR;
	h.minor = NICLESS_MINOR;
	h.features = 0;
	if (n > sizeof request - sizeof h)
		n = sizeof request - sizeof h;
	memcpy(request, &h, sizeof h);
	memcpy(request + sizeof h, name, n);
	error = nicless_call(c, NICLESS_OP_HELLO, request, sizeof h + n, &c->device, sizeof c->device, fds);
	if (error == 0 && c->device.major != NICLESS_MAJOR)
		error = nicless_fail(c, -EPROTONOSUPPORT,
		                     "the engine speaks version %u.%u of the protocol, this client %d.%d",
		                     c->device.major, c->device.minor, NICLESS_MAJOR, NICLESS_MINOR);
	if (error == 0)
		error = nicless_map(c, fds);
	nicless_close_fds(fds);
	return error;
}

/*
 * Connects to the engine at path. name appears in the engine's log. After an error there is nothing
 * to close.
 */
static inline int nicless_connect(struct nicless_client *c, const char *path, const char *name) {
	struct sockaddr_un at;
	struct timeval patience;
	time_t begun = nicless_now();
	int error;
	memset(c, 0, sizeof *c);
	c->fd = -1;
	memset(&at, 0, sizeof at);
	at.sun_family = AF_UNIX;
	if (strlen(path) >= sizeof at.sun_path)
		return nicless_fail(c, -ENAMETOOLONG, "socket path of %zu bytes; %zu are possible", strlen(path),
		                    sizeof at.sun_path - 1);
	memcpy(at.sun_path, path, strlen(path));
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return nicless_fail(c, -errno, "socket: %s", strerror(errno));
	patience.tv_sec = NICLESS_PATIENCE;
	patience.tv_usec = 0;
	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
	    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
		error = errno;
		nicless_close(c);
		return nicless_fail(c, -error, "socket: %s", strerror(error));
	}
	do
		error = connect(c->fd, (struct sockaddr *)&at, sizeof at);
	while (error && nicless_again(begun));
	if (error) {
		error = errno;
		nicless_close(c);
		if (error == EAGAIN) /* the queue of connections is full, and the engine accepts none */
			return nicless_fail(c, -ETIMEDOUT, "the engine at %s has not taken a connection in %d seconds",
			                    path, NICLESS_PATIENCE);
		if (error == EPROTOTYPE)
			return nicless_fail(c, -error, "%s is a socket of another kind, not an engine's (SOCK_SEQPACKET)",
			                    path);
		if (error == EACCES)
			return nicless_fail(c, -error, "this user may not connect to the engine at %s", path);
		return nicless_fail(c, -error, "no engine at %s: %s", path, strerror(error));
	}
	error = nicless_greet(c, name);
	if (error)
		nicless_close(c);
	return error;
}

#endif
