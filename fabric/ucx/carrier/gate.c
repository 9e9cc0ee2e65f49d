#define _GNU_SOURCE
#include "gate.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

/* glibc declares arguments that are addresses as transparent unions, for which ISO C has no definition. */
#pragma GCC diagnostic ignored "-Wpedantic"

/* A door is a socket of libucx that listens in its view only. Its descriptor is one end of a socket pair. */
struct door {
	int fd;           /* of libucx; 0: not in use */
	ino_t inode;      /* of the socket behind fd: the number is used again when libucx has closed it */
	int inside;       /* the other end of the pair */
	int bound;        /* keeps the port, so that no other socket of this host has the same name */
	struct sockaddr_storage at;
	socklen_t length;
	unsigned char name[DOOR_NAME];
};

/* libucx accepts and connects on a thread of its own, too. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct door doors[DOORS];
static struct route routes[ROUTES];

/* The first bytes over a connection: fabric/ucx/version.go says what they mean, and checks them. */
enum { PROTOCOL = 3 }; /* protocol of fabric/ucx/version.go */
struct preface {
	char magic[8];
	unsigned char version[2], kind, flags;
	unsigned char ticket[TICKET], door[DOOR_NAME];
};
_Static_assert(sizeof(struct preface) == 48, "preface");

/* Prefaces that are not sent yet, by descriptor. */
enum { DESCRIPTORS = 4096 };
static struct {
	bool waits;
	struct preface first;
} prefaces[DESCRIPTORS];

static bool name_of(unsigned char name[DOOR_NAME], const struct sockaddr *a, socklen_t length) {
	memset(name, 0, DOOR_NAME);
	if (a->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = (const void *)a;
		name[1] = 4;
		memcpy(name + 2, &in->sin_port, 2);
		memcpy(name + 4, &in->sin_addr, 4);
		return true;
	}
	if (a->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
		const struct sockaddr_in6 *in = (const void *)a;
		name[1] = 6;
		memcpy(name + 2, &in->sin6_port, 2);
		memcpy(name + 4, &in->sin6_addr, 16);
		return true;
	}
	return false;
}

static bool is_tcp(int fd) {
	int domain = 0, type = 0;
	socklen_t n = sizeof domain;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) || (domain != AF_INET && domain != AF_INET6))
		return false;
	n = sizeof type;
	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) && type == SOCK_STREAM;
}

static ino_t inode_of(int fd) {
	struct stat st;
	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* door_of returns the door behind a descriptor. lock is held. */
static struct door *door_of(int fd) {
	for (struct door *d = doors; d < doors + DOORS; d++)
		if (d->fd && d->fd == fd)
			return d->inode == inode_of(fd) ? d : NULL;
	return NULL;
}

/* vacant returns a door that is not in use, or whose socket libucx has closed. lock is held. */
static struct door *vacant(void) {
	for (struct door *d = doors; d < doors + DOORS; d++) {
		if (d->fd && d->inode != inode_of(d->fd)) {
			close(d->inside);
			close(d->bound);
			memset(d, 0, sizeof *d);
		}
		if (!d->fd)
			return d;
	}
	return NULL;
}

VISIBLE int listen(int fd, int backlog) {
	if (!is_tcp(fd))
		return (int)syscall(SYS_listen, fd, backlog);
	int pair[2], result = -1;
	struct door d = {.fd = fd, .length = sizeof d.at};
	if (syscall(SYS_getsockname, fd, &d.at, &d.length) ||
	    !name_of(d.name, (struct sockaddr *)&d.at, d.length))
		return -1;
	pthread_mutex_lock(&lock);
	struct door *to = vacant();
	if (!to) {
		errno = ENOBUFS;
	} else if (!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
		d.bound = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		d.inside = pair[1];
		if (d.bound >= 0 && dup3(pair[0], fd, O_CLOEXEC) == fd) {
			d.inode = inode_of(fd);
			*to = d;
			result = 0;
		} else {
			if (d.bound >= 0)
				close(d.bound);
			close(pair[1]);
		}
		close(pair[0]);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

VISIBLE int getsockname(int fd, struct sockaddr *restrict a, socklen_t *restrict length) {
	pthread_mutex_lock(&lock);
	struct door *d = door_of(fd);
	if (d) {
		memcpy(a, &d->at, *length < d->length ? *length : d->length);
		*length = d->length;
	}
	pthread_mutex_unlock(&lock);
	return d ? 0 : (int)syscall(SYS_getsockname, fd, a, length);
}

/* take receives a descriptor from a socket, or returns -1. */
static int take(int from) {
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct msghdr m = {.msg_iov = &(struct iovec){&byte, 1}, .msg_iovlen = 1, .msg_control = &control,
	                   .msg_controllen = sizeof control};
	int fd = -1;
	if (recvmsg(from, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

static void preface_done(int fd) {
	if (fd >= 0 && fd < DESCRIPTORS)
		__atomic_store_n(&prefaces[fd].waits, false, __ATOMIC_RELEASE);
}

VISIBLE int accept4(int fd, struct sockaddr *restrict a, socklen_t *restrict length, int flags) {
	pthread_mutex_lock(&lock);
	bool is_door = door_of(fd) != NULL;
	pthread_mutex_unlock(&lock);
	if (!is_door)
		return (int)syscall(SYS_accept4, fd, a, length, flags);
	int got = take(fd);
	if (got < 0) {
		errno = EAGAIN;
		return -1;
	}
	preface_done(got); /* of an earlier socket with this number */
	if (a && length)
		(void)!getpeername(got, a, length);
	return got;
}

VISIBLE int accept(int fd, struct sockaddr *restrict a, socklen_t *restrict length) {
	return accept4(fd, a, length, 0);
}

/* lead fills in where a connection to a door leads, and what is sent first. lock is held. */
static bool lead(const unsigned char door[DOOR_NAME], unsigned char to[DOOR_NAME], struct preface *first) {
	for (struct route *r = routes; r < routes + ROUTES; r++) {
		if (!r->number || !r->tickets)
			continue;
		for (unsigned i = 0; i < r->doors; i++) {
			if (memcmp(r->door[i], door, DOOR_NAME))
				continue;
			memcpy(to, r->any ? door : r->to, DOOR_NAME);
			memcpy(to + 2, r->to + 2, 2);
			*first = (struct preface){.magic = "NICLESS", .version = {0, PROTOCOL}, .kind = 2};
			first->magic[7] = 'U';
			memcpy(first->ticket, r->ticket[--r->tickets], TICKET);
			memcpy(first->door, door, DOOR_NAME);
			return true;
		}
	}
	return false;
}

VISIBLE int connect(int fd, const struct sockaddr *a, socklen_t length) {
	if (!is_tcp(fd))
		return (int)syscall(SYS_connect, fd, a, length);
	unsigned char door[DOOR_NAME], to[DOOR_NAME];
	struct preface first;
	pthread_mutex_lock(&lock);
	bool known = fd < DESCRIPTORS && name_of(door, a, length) && lead(door, to, &first);
	pthread_mutex_unlock(&lock);
	if (!known) {
		errno = ECONNREFUSED;
		return -1;
	}
	prefaces[fd].first = first;
	__atomic_store_n(&prefaces[fd].waits, true, __ATOMIC_RELEASE);
	if (a->sa_family == AF_INET) {
		struct sockaddr_in real = {.sin_family = AF_INET};
		if (to[1] != 4) {
			errno = EAFNOSUPPORT;
			return -1;
		}
		memcpy(&real.sin_port, to + 2, 2);
		memcpy(&real.sin_addr, to + 4, 4);
		return (int)syscall(SYS_connect, fd, &real, sizeof real);
	}
	const struct sockaddr_in6 *given = (const struct sockaddr_in6 *)(const void *)a;
	struct sockaddr_in6 real = {.sin6_family = AF_INET6, .sin6_scope_id = given->sin6_scope_id};
	memcpy(&real.sin6_port, to + 2, 2);
	if (to[1] == 4) {
		memset((unsigned char *)&real.sin6_addr + 10, 0xff, 2);
		memcpy((unsigned char *)&real.sin6_addr + 12, to + 4, 4);
	} else {
		memcpy(&real.sin6_addr, to + 4, 16);
	}
	return (int)syscall(SYS_connect, fd, &real, sizeof real);
}

/* ready sends the preface of a connection if that has not been done. It returns false, with errno, if it
 * cannot be sent now. A socket that has not sent has room for it. */
static bool ready(int fd) {
	if (__builtin_expect(fd < 0 || fd >= DESCRIPTORS ||
	                     !__atomic_load_n(&prefaces[fd].waits, __ATOMIC_ACQUIRE), 1))
		return true;
	long n = syscall(SYS_sendto, fd, &prefaces[fd].first, sizeof prefaces[fd].first,
	                 MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
	if (n < 0)
		return false;
	if (n != sizeof prefaces[fd].first) {
		errno = ECONNRESET;
		return false;
	}
	preface_done(fd);
	return true;
}

VISIBLE ssize_t send(int fd, const void *b, size_t n, int flags) {
	return ready(fd) ? syscall(SYS_sendto, fd, b, n, flags, NULL, 0) : -1;
}

VISIBLE ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
	return ready(fd) ? syscall(SYS_sendmsg, fd, m, flags) : -1;
}

VISIBLE ssize_t writev(int fd, const struct iovec *v, int n) {
	return ready(fd) ? syscall(SYS_writev, fd, v, n) : -1;
}

bool gate_route(const struct route *new) {
	bool done = false;
	pthread_mutex_lock(&lock);
	for (struct route *r = routes; r < routes + ROUTES && !done; r++)
		if (!r->number) {
			*r = *new;
			done = true;
		}
	pthread_mutex_unlock(&lock);
	return done;
}

void gate_forget(uint32_t number) {
	pthread_mutex_lock(&lock);
	for (struct route *r = routes; r < routes + ROUTES; r++)
		if (r->number == number)
			memset(r, 0, sizeof *r);
	pthread_mutex_unlock(&lock);
}

unsigned gate_doors(unsigned char names[DOORS][DOOR_NAME]) {
	unsigned n = 0;
	pthread_mutex_lock(&lock);
	for (struct door *d = doors; d < doors + DOORS; d++)
		if (d->fd && d->inode == inode_of(d->fd))
			memcpy(names[n++], d->name, DOOR_NAME);
	pthread_mutex_unlock(&lock);
	return n;
}

void gate_admit(const unsigned char name[DOOR_NAME], int fd) {
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET,
	                      .cmsg_type = SCM_RIGHTS}};
	memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
	struct msghdr m = {.msg_iov = &(struct iovec){"", 1}, .msg_iovlen = 1, .msg_control = &control,
	                   .msg_controllen = sizeof control};
	pthread_mutex_lock(&lock);
	for (struct door *d = doors; d < doors + DOORS; d++)
		if (d->fd && d->inode == inode_of(d->fd) && !memcmp(d->name, name, DOOR_NAME)) {
			(void)!syscall(SYS_sendmsg, d->inside, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
			break;
		}
	pthread_mutex_unlock(&lock);
	close(fd);
}
