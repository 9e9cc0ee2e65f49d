/* Macros and requests that the programs in this directory share. The programs make one check
 * after another, and end at the first check that fails. The ioctls are those of the fake server
 * in fake_test.go. */
#ifndef TRY_H
#define TRY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#define DEVICE "/dev/infiniband/uverbs0"

#define TRY(is)                                                                                    \
	do {                                                                                           \
		errno = 0;                                                                                 \
		if (!(is)) {                                                                               \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #is, strerror(errno)); \
			_exit(1);                                                                              \
		}                                                                                          \
	} while (0)

/* Checks that a call fails with the errno `with`. */
#define FAILS(with, is)                                                                      \
	do {                                                                                     \
		errno = 0;                                                                           \
		if ((is) != -1 || errno != (with)) {                                                 \
			int e = errno;                                                                   \
			fprintf(stderr, "%s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #is, strerror(e), \
			        strerror(with));                                                         \
			_exit(1);                                                                        \
		}                                                                                    \
	} while (0)

/* Methods of the fake server. */
enum {
	/* Attr 0: bytes in; attr 1: out, the same bytes backwards; attr 2: value, ioctls of this context so
	 * far. */
	REVERSE = 1,
	PIPE,        /* attr 0: a new descriptor from which "pipe" can be read */
	PIPE_INSIDE, /* attr 0: 16 bytes; the second word of them is such a descriptor */
	/* Attr 0: a descriptor in; attr 1: value, its inode; if it is not open, an errno in bits 32 and above. */
	INODE,
	REMAP,       /* attr 0: address; attr 1: length; attr 2: value, the errno of the remapping */
	/* Attr 0: offset in the memory of the last remapping or mapping; attr 1: value, the word there. */
	PEEK,
	ENDLESS,     /* always answers with needs */
	ERRNO,       /* attr 0: the errno to answer */
	TOO_LONG,    /* attr 0: out; the server answers one byte more than there is room for */
	/* Attr 0: value, NV_ADOPT requests so far; attr 1: value, open contexts; attr 2: value, allocations. */
	COUNT,
	HANG_UP,     /* the server closes the connection */
};

struct request {
	struct ib_uverbs_ioctl_hdr *hdr;
	struct ib_uverbs_attr *attrs;
	uint64_t room[64];
};

static inline void begin(struct request *r, unsigned method) {
	memset(r, 0, sizeof *r);
	r->hdr = (void *)r->room;
	r->attrs = (void *)(r->room + sizeof *r->hdr / 8);
	r->hdr->method_id = (uint16_t)method;
	r->hdr->length = sizeof *r->hdr;
}

static inline void attr(struct request *r, size_t length, uint64_t data) {
	struct ib_uverbs_attr *a = &r->attrs[r->hdr->num_attrs++];
	a->attr_id = (uint16_t)(r->hdr->num_attrs - 1);
	a->len = (uint16_t)length;
	a->data = data;
	r->hdr->length = (uint16_t)(r->hdr->length + sizeof *a);
}

static inline uint64_t address(const void *at) { return (uint64_t)(uintptr_t)at; }

static inline int call(int fd, struct request *r) { return ioctl(fd, RDMA_VERBS_IOCTL, r->room); }

/* Makes one valid ioctl with bytes that depend on seed. Returns the count that the server
 * answers, or -1. */
static inline int64_t reverse(int fd, unsigned seed) {
	struct request r;
	unsigned char in[40], out[40];
	size_t i;
	for (i = 0; i < sizeof in; i++)
		in[i] = (unsigned char)(seed * 31 + i);
	memset(out, 0, sizeof out);
	begin(&r, REVERSE);
	attr(&r, sizeof in, address(in));
	attr(&r, sizeof out, address(out));
	attr(&r, 8, 0);
	if (call(fd, &r) != 0)
		return -1;
	for (i = 0; i < sizeof in; i++)
		TRY(out[i] == in[sizeof in - 1 - i]);
	TRY((r.attrs[1].flags & UVERBS_ATTR_F_VALID_OUTPUT) && !(r.attrs[0].flags & UVERBS_ATTR_F_VALID_OUTPUT));
	return (int64_t)r.attrs[2].data;
}

static inline uint64_t count(int fd, unsigned which) {
	struct request r;
	begin(&r, COUNT);
	attr(&r, 8, 0);
	attr(&r, 8, 0);
	attr(&r, 8, 0);
	TRY(call(fd, &r) == 0);
	return r.attrs[which].data;
}

static inline uint64_t peek(int fd, uint64_t offset) {
	struct request r;
	begin(&r, PEEK);
	attr(&r, 8, offset);
	attr(&r, 8, 0);
	TRY(call(fd, &r) == 0);
	return r.attrs[1].data;
}

static inline int is_device(const struct stat *st) {
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(231, 192);
}

/* Waits for the child, which must exit with status 0. */
static inline void join(pid_t child) {
	int status;
	TRY(waitpid(child, &status, 0) == child);
	TRY(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static inline void pass(int through, int fd) {
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof control};
	memset(&control, 0, sizeof control);
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
	TRY(sendmsg(through, &m, 0) == 1);
}

static inline int passed(int through) {
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	int fd;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof control};
	TRY(recvmsg(through, &m, 0) == 1);
	TRY(m.msg_controllen >= CMSG_LEN(sizeof fd));
	memcpy(&fd, CMSG_DATA(&control.align), sizeof fd);
	return fd;
}

#endif
