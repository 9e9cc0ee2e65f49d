#define _GNU_SOURCE
#include "control.h"
#include "carrier.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void put(unsigned char *b, uint64_t v) {
	v = be64(v);
	memcpy(b, &v, 8);
}

static uint64_t get(const unsigned char *b) {
	uint64_t v;
	memcpy(&v, b, 8);
	return be64(v);
}

void tell(uint16_t type, uint32_t number, uint64_t a, uint64_t b, uint64_t c, const void *body,
          size_t length) {
	unsigned char m[MESSAGE];
	if (length > sizeof m - MESSAGE_HEAD)
		return;
	put(m, (uint64_t)type << 48 | number);
	put(m + 8, a);
	put(m + 16, b);
	put(m + 24, c);
	if (length)
		memcpy(m + MESSAGE_HEAD, body, length);
	if (type == M_COUNTS) {
		/* Counts that are lost come again. */
	(void)!send(CONTROL_FD, m, MESSAGE_HEAD + length, MSG_NOSIGNAL | MSG_DONTWAIT);
		return;
	}
	while (send(CONTROL_FD, m, MESSAGE_HEAD + length, MSG_NOSIGNAL) < 0) {
		if (errno == EAGAIN || errno == ENOBUFS)
			poll(&(struct pollfd){.fd = CONTROL_FD, .events = POLLOUT}, 1, 100);
		else if (errno != EINTR)
			exit(1); /* the engine's process is gone */
	}
}

void fatal(const char *format, ...) {
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	tell(M_FATAL, 0, 0, 0, 0, text, strlen(text));
	_exit(3);
}

/*
 * parse reads the body of M_OPEN:
 *
 *	0    token here:128
 *	16   token there:128
 *	32   key of messages to the peer:256
 *	64   key of messages from the peer:256
 *	96   cipher:8 | encrypt:8 | active:8 | any:8
 *	100  doors:8 | tickets:8 | length of the worker address:16
 *	104  where the peer's engine listens: as the name of a door
 *	124  0:32
 *	128  names of doors, tickets, worker address
 */
static bool parse(struct opening *o, const unsigned char *b, size_t n) {
	enum { HEAD = 128 };
	if (n < HEAD)
		return false;
	memcpy(o->here, b, 16);
	memcpy(o->there, b + 16, 16);
	memcpy(o->key_out, b + 32, KEY);
	memcpy(o->key_in, b + 64, KEY);
	o->cipher = b[96];
	o->encrypts = b[97];
	o->active = b[98];
	o->route.number = o->number;
	o->route.any = b[99];
	o->route.doors = b[100];
	o->route.tickets = b[101];
	o->worker_address_length = (size_t)b[102] << 8 | b[103];
	memcpy(o->route.to, b + 104, DOOR_NAME);
	size_t doors = (size_t)o->route.doors * DOOR_NAME, tickets = (size_t)o->route.tickets * TICKET;
	if (!o->number || o->route.doors > DOORS || o->route.tickets > TICKETS ||
	    n != HEAD + doors + tickets + o->worker_address_length)
		return false;
	b += HEAD;
	memcpy(o->route.door, b, doors);
	memcpy(o->route.ticket, b + doors, tickets);
	o->worker_address = b + doors + tickets;
	return true;
}

/* obey does what a message says. fd is the descriptor that has come with it, -1: none. It returns false if
 * this process has to end. */
static bool obey(unsigned char *m, size_t n, int fd) {
	if (n < MESSAGE_HEAD)
		return true;
	uint64_t head = get(m), a = get(m + 8);
	uint32_t number = (uint32_t)head;
	unsigned char *body = m + MESSAGE_HEAD;
	size_t length = n - MESSAGE_HEAD;
	switch (head >> 48) {
	case M_OPEN: {
		struct opening o = {.number = number, .path = (uint32_t)a};
		if (parse(&o, body, length))
			connection_open(&o);
		explicit_bzero(&o, sizeof o);
		explicit_bzero(m, n); /* keys */
		break;
	}
	case M_CLOSE:
		body[length] = 0;
		connection_close(number, (char *)body);
		break;
	case M_SOCKET:
		if (fd >= 0 && length == DOOR_NAME) {
			gate_admit(body, fd);
			return true;
		}
		break;
	case M_END:
		return false;
	}
	if (fd >= 0)
		close(fd);
	return true;
}

/* receive receives a message, and the descriptor that comes with it. */
static ssize_t receive(unsigned char *m, size_t room, int *fd) {
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr h = {.msg_iov = &(struct iovec){m, room}, .msg_iovlen = 1, .msg_control = &control,
	                   .msg_controllen = sizeof control};
	*fd = -1;
	ssize_t n = recvmsg(CONTROL_FD, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&h) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof *fd))
		memcpy(fd, CMSG_DATA(c), sizeof *fd);
	return n;
}

bool hear(void) {
	static unsigned char m[MESSAGE + 1];
	for (;;) {
		int fd;
		ssize_t n = receive(m, MESSAGE, &fd);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			exit(1); /* the engine's process is gone */
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n > 0 && !obey(m, (size_t)n, fd))
			return false;
	}
}
