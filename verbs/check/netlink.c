/* Sockets of NETLINK_RDMA behave as the kernel's: names, options, errors, truncation, copies in other
 * processes, and as many as there may be. */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SYSTEM = 5 << 10 | 6, MANY = 10000, ROOM = 4096 };

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

static int rdma_socket(int flags) { return socket(AF_NETLINK, SOCK_RAW | flags, NETLINK_RDMA); }

static struct sockaddr_nl address(uint32_t port) {
	struct sockaddr_nl a;
	memset(&a, 0, sizeof a);
	a.nl_family = AF_NETLINK;
	a.nl_pid = port;
	return a;
}

static uint32_t port_of(int fd) {
	struct sockaddr_nl a;
	socklen_t size = sizeof a;
	MUST(getsockname(fd, (struct sockaddr *)&a, &size) == 0);
	MUST(size == sizeof a && a.nl_family == AF_NETLINK);
	return a.nl_pid;
}

static int bind_to(int fd, uint32_t port) {
	struct sockaddr_nl a = address(port);
	return bind(fd, (struct sockaddr *)&a, sizeof a) == 0 ? 0 : errno;
}

/* Asks about the system; returns 0 or an errno. */
static int ask(int fd, uint32_t to, int peek) {
	struct nlmsghdr h;
	struct sockaddr_nl a = address(to), from;
	socklen_t size = sizeof from;
	char answer[ROOM];
	ssize_t n, first = 0;
	memset(&h, 0, sizeof h);
	h.nlmsg_len = sizeof h;
	h.nlmsg_type = SYSTEM;
	h.nlmsg_flags = NLM_F_REQUEST;
	h.nlmsg_seq = 7;
	if (sendto(fd, &h, sizeof h, 0, (struct sockaddr *)&a, sizeof a) != (ssize_t)sizeof h)
		return errno;
	if (peek)
		first = recv(fd, answer, 8, MSG_PEEK | MSG_TRUNC);
	memset(&from, 0xff, sizeof from);
	n = recvfrom(fd, answer, sizeof answer, 0, (struct sockaddr *)&from, &size);
	MUST(n > (ssize_t)sizeof h && (!peek || first == n));
	MUST(size == sizeof from && from.nl_family == AF_NETLINK && from.nl_pid == 0 && from.nl_groups == 0);
	memcpy(&h, answer, sizeof h);
	MUST(h.nlmsg_type == SYSTEM && h.nlmsg_seq == 7 && h.nlmsg_len == (uint32_t)n);
	MUST(h.nlmsg_pid == port_of(fd));
	return 0;
}

static void names(void) {
	int a = rdma_socket(0), b = rdma_socket(0), c = rdma_socket(0);
	MUST(a >= 0 && b >= 0 && c >= 0);
	MUST(port_of(a) == 0);
	MUST(bind_to(a, 0) == 0 && port_of(a) == (uint32_t)getpid());
	MUST(bind_to(b, port_of(a)) == EADDRINUSE);
	MUST(bind_to(b, 4242424) == 0 && port_of(b) == 4242424);
	MUST(bind_to(b, 4242425) == EINVAL && bind_to(b, 4242424) == 0);
	MUST(ask(c, 0, 1) == 0 && port_of(c) != 0 && port_of(c) != port_of(a)); /* bound by its first message */
	MUST(ask(a, 0, 0) == 0 && ask(b, 0, 1) == 0);
	MUST(ask(a, 9, 0) == ECONNREFUSED);
	close(b);
	close(c);
	b = rdma_socket(0);
	MUST(bind_to(b, 4242424) == 0); /* free again */
	close(a);
	close(b);
}

static int option(int fd, int level, int which) {
	int value = -1;
	socklen_t size = sizeof value;
	return getsockopt(fd, level, which, &value, &size) == 0 ? value : -errno;
}

static void options(void) {
	int fd = rdma_socket(SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1, group = 33;
	char byte;
	MUST(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK));
	MUST(recv(fd, &byte, 1, 0) == -1 && errno == EAGAIN);
	MUST(option(fd, SOL_SOCKET, SO_DOMAIN) == AF_NETLINK);
	MUST(option(fd, SOL_SOCKET, SO_PROTOCOL) == NETLINK_RDMA);
	MUST(option(fd, SOL_SOCKET, SO_TYPE) == SOCK_RAW);
	MUST(option(fd, SOL_NETLINK, NETLINK_EXT_ACK) == 0);
	MUST(setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof one) == 0);
	MUST(option(fd, SOL_NETLINK, NETLINK_EXT_ACK) == 1);
	MUST(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == -1 && errno == EINVAL);
	group = 4;
	MUST(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == 0);
	MUST(option(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS) == 1 << 3);
	MUST(setsockopt(fd, SOL_NETLINK, 77, &one, sizeof one) == -1 && errno == ENOPROTOOPT);
	MUST(socket(AF_NETLINK, SOCK_STREAM, NETLINK_RDMA) == -1 && errno == ESOCKTNOSUPPORT);
	close(fd);
	/* Other sockets are what they were. */
	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	MUST(fd >= 0 && bind_to(fd, 0) == 0 && port_of(fd) != 0);
	MUST(option(fd, SOL_NETLINK, NETLINK_EXT_ACK) == 0);
	close(fd);
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	MUST(fd >= 0 && option(fd, SOL_SOCKET, SO_TYPE) == SOCK_SEQPACKET && bind_to(fd, 0) == EINVAL);
	close(fd);
}

/* A copy works in a child, and after an exec of this program with the descriptor's number. */
static void copies(const char *self) {
	int fd = rdma_socket(0), copy = dup(fd), status;
	char number[16];
	pid_t child;
	MUST(bind_to(fd, 0) == 0);
	close(fd);
	MUST(ask(copy, 0, 0) == 0);
	child = fork();
	if (child == 0)
		_exit(ask(copy, 0, 0) == 0 ? 0 : 1);
	MUST(waitpid(child, &status, 0) == child && status == 0);
	snprintf(number, sizeof number, "%d", copy);
	child = fork();
	if (child == 0) {
		execl(self, self, number, (char *)NULL);
		_exit(1);
	}
	MUST(waitpid(child, &status, 0) == child && status == 0);
	close(copy);
}

/* A program that opens as many as it can gets the errno of its limit, or of the server's, and nobody else
 * has fewer for it. */
static void many(void) {
	struct rlimit limit;
	int *fds = calloc(MANY, sizeof *fds), n = 0, error;
	MUST(getrlimit(RLIMIT_NOFILE, &limit) == 0 && fds);
	while (n < MANY && (fds[n] = rdma_socket(0)) >= 0)
		n++;
	error = errno;
	MUST(n > 64 && n < MANY && (error == EMFILE || error == ENFILE || error == ENOBUFS));
	MUST(ask(fds[n - 1], 0, 0) == 0);
	while (n > 0)
		close(fds[--n]);
	free(fds);
}

int main(int argc, char **argv) {
	if (argc > 1)
		return ask(atoi(argv[1]), 0, 0) == 0 ? 0 : 1;
	names();
	options();
	copies(argv[0]);
	many();
	printf("netlink: names, options, copies, many: ok\n");
	return 0;
}
