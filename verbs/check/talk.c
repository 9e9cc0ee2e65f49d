#include "talk.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static struct sockaddr_in name(const char *address, const char *port) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	MUST(inet_pton(AF_INET, address, &a.sin_addr) == 1);
	return a;
}

static int prompt(int s) {
	int on = 1;
	DO(setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
	return s;
}

int talk_listen(const char *port) {
	struct sockaddr_in a = name("0.0.0.0", port);
	int s, on = 1;
	MUST((s = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	DO(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
	DO(bind(s, (struct sockaddr *)&a, sizeof a));
	DO(listen(s, 1));
	return s;
}

int talk_accept(int listener) {
	int s;
	MUST((s = accept(listener, NULL, NULL)) >= 0);
	DO(close(listener));
	return prompt(s);
}

int talk_connect(const char *address, const char *port) {
	struct sockaddr_in a = name(address, port);
	time_t end = time(NULL) + 60;
	int s;
	for (;;) {
		MUST((s = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
		if (connect(s, (struct sockaddr *)&a, sizeof a) == 0)
			return prompt(s);
		/* The kernel asked for the neighbour before the cable was back; all who wait get this answer. */
		if (errno != EHOSTUNREACH || time(NULL) > end)
			FAIL("connect to %s: %s", address, strerror(errno));
		DO(close(s));
	}
}

void talk_swap(int talk, const void *mine, void *theirs, size_t n) {
	size_t done = 0;
	MUST(write(talk, mine, n) == (ssize_t)n); /* n is small enough for the socket's buffer */
	while (done < n) {
		ssize_t got = read(talk, (char *)theirs + done, n - done);
		if (got <= 0)
			FAIL("the other end has gone: %s", got ? strerror(errno) : "end of file");
		done += (size_t)got;
	}
}
