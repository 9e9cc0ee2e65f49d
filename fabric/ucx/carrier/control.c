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

void tell2(uint16_t type, uint32_t number, uint64_t a, uint64_t b, const void *first, size_t length, const void *second, size_t more) {
	unsigned char m[MESSAGE];
	if (length + more > sizeof m - MESSAGE_HEAD)
		return;
	put(m, (uint64_t)type << 48 | number);
	put(m + 8, a);
	put(m + 16, b);
	put(m + 24, 0);
	memcpy(m + MESSAGE_HEAD, first, length);
	if (more)
		memcpy(m + MESSAGE_HEAD + length, second, more);
	while (send(CONTROL_FD, m, MESSAGE_HEAD + length + more, MSG_NOSIGNAL) < 0) {
		if (errno == EAGAIN || errno == ENOBUFS)
			poll(&(struct pollfd){.fd = CONTROL_FD, .events = POLLOUT}, 1, 100);
		else if (errno != EINTR)
			exit(1); /* the engine's process is gone */
	}
}

void tell(uint16_t type, uint32_t number, uint64_t a, uint64_t b, uint64_t c, const void *body, size_t length) {
	if (type != M_COUNTS) {
		tell2(type, number, a, b, body, length, NULL, 0);
		return;
	}
	unsigned char m[MESSAGE_HEAD];
	put(m, (uint64_t)type << 48 | number);
	put(m + 8, a);
	put(m + 16, b);
	put(m + 24, c);
	(void)!send(CONTROL_FD, m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT); /* counts that are lost come again */
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

/* obey does what a message says. It returns false if this process has to end. */
static bool obey(unsigned char *m, size_t n) {
	if (n < MESSAGE_HEAD)
		return true;
	uint64_t head = get(m), a = get(m + 8);
	uint32_t number = (uint32_t)head;
	unsigned char *body = m + MESSAGE_HEAD;
	size_t length = n - MESSAGE_HEAD;
	struct connection *c;
	switch (head >> 48) {
	case M_HELLO:
		if (length > sizeof carrier.greeting)
			break;
		memcpy(carrier.greeting, body, length);
		carrier.greeting_length = length;
		carrier.greetings++;
		for (c = carrier.connections; c < carrier.connections + CONNECTIONS; c++)
			if (c->state == UP)
				greet(c);
		break;
	case M_CONNECT:
		body[length] = 0;
		if (strlen((char *)body) < length)
			connect_to(number, (char *)body, (char *)body + strlen((char *)body) + 1);
		break;
	case M_ACCEPT:
		if ((c = connection_numbered(number)))
			agree(c, (uint32_t)a);
		break;
	case M_REFUSE:
		body[length] = 0;
		if ((c = connection_numbered(number)))
			disagree(c, (char *)body);
		break;
	case M_END:
		return false;
	}
	return true;
}

bool hear(void) {
	static unsigned char m[MESSAGE + 1];
	for (;;) {
		ssize_t n = recv(CONTROL_FD, m, MESSAGE, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			exit(1); /* the engine's process is gone */
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n > 0 && !obey(m, (size_t)n))
			return false;
	}
}
