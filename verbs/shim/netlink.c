/* Sockets of NETLINK_RDMA, by which programs list devices and watch them. The kernel would list
 * other devices, and only to programs in its own network namespaces, so such a socket is one end of a
 * pair of unix sockets. The server has the other end, and answers there as the kernel does.
 *
 * Both ends have names (NV_NETLINK_NAME). So a copy of the descriptor in any process, also after an
 * exec, is recognised by the kernel's answer to getpeername, and a message by the name of its sender.
 * This library keeps no table of such sockets, and programs without them pay little. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "real.h"

enum {
	HEAD = offsetof(struct sockaddr_un, sun_path) + 1, /* an abstract name begins with a 0 byte */
	TEXT = sizeof NV_NETLINK_NAME - 1,
	MARK = HEAD + TEXT,         /* '/' in the server's names, '=' in those of programs */
	PORT = MARK + 1 + 16,       /* 16 digits name the server */
	LENGTH = PORT + 8,          /* 8 digits are the port id or, in the server's names, any number */
	SEEN = sizeof(struct sockaddr_nl) /* programs have room for so much of a name */
};

union name {
	struct sockaddr any;
	struct sockaddr_un un;
	char bytes[LENGTH + 1]; /* and a 0 byte */
};

/* Reports whether the first `room` bytes of a name of `length` bytes are those of one of our names. */
static bool is_ours(const struct sockaddr *a, socklen_t room, socklen_t length) {
	size_t n = room < MARK ? room : MARK;
	return length == LENGTH && room >= SEEN && a->sa_family == AF_UNIX &&
	       memcmp((const char *)a + HEAD, NV_NETLINK_NAME, n - HEAD) == 0;
}

static bool peer_of(int fd, union name *peer) {
	socklen_t size = LENGTH;
	memset(peer, 0, sizeof *peer);
	return NV_PLAIN(getpeername)(fd, &peer->any, &size) == 0 && is_ours(&peer->any, LENGTH, size) &&
	       peer->bytes[MARK] == '/';
}

bool nv_is_netlink(int fd) {
	union name peer;
	return nv_dir() && peer_of(fd, &peer);
}

/* Returns the port id; 0: the socket has none yet. */
static uint32_t port_of(int fd) {
	union name own;
	socklen_t size = LENGTH;
	unsigned port = 0;
	memset(&own, 0, sizeof own);
	if (NV_PLAIN(getsockname)(fd, &own.any, &size) == 0 && is_ours(&own.any, LENGTH, size))
		sscanf(own.bytes + PORT, "%8x", &port);
	return port;
}

/* The kernel keeps port ids apart: names in use are refused. */
static int take_port(int fd, const union name *peer, uint32_t port) {
	union name own = *peer;
	own.bytes[MARK] = '=';
	snprintf(own.bytes + PORT, sizeof own.bytes - PORT, "%08x", (unsigned)port);
	return NV_PLAIN(bind)(fd, &own.any, LENGTH) == 0 ? 0 : errno;
}

/* The first socket of a process gets the number of the process, the others a number that only they have. */
static int take_any_port(int fd, const union name *peer) {
	enum { TRIES = 64 };
	uint32_t port = (uint32_t)getpid();
	int i, error = EADDRINUSE;
	for (i = 0; error == EADDRINUSE && i < TRIES; i++) {
		error = take_port(fd, peer, port);
		/* by chance, so that no other process can take it before */
		if (error == EADDRINUSE && NV_SYSCALL(SYS_getrandom, &port, sizeof port, 0) != sizeof port)
			return error;
		port |= 1u << 31;
	}
	return error;
}

/* Asks the server about a socket, or for one if fd is -1. On success *value is the answer's value, and the
 * result is the new socket or 0. */
static int ask(int fd, uint32_t option, uint32_t *value) {
	const struct nv_netlink *a;
	struct nv_entry entry;
	struct nv_netlink *q;
	struct nv_process *p = nv_enter(&entry);
	int error, made = 0;
	if (!p)
		return -1;
	error = nv_connect(p);
	/* The server has to know the namespace whose interfaces the answers name. */
	if (error == 0 && !p->rooted && nv_tell_addresses(p) == EIO)
		error = EIO;
	if (error == 0) {
		nv_begin(p, NV_NETLINK, 0);
		q = nv_room(p, sizeof *q);
		q->option = option;
		q->value = *value;
		if (fd >= 0)
			p->out_fds[p->out_count++] = fd;
		error = nv_ask(p);
	}
	if (error == 0 && p->in_length < sizeof(struct nv_header) + sizeof *a)
		error = EPROTO;
	if (error == 0) {
		a = (const struct nv_netlink *)(p->in + sizeof(struct nv_header));
		*value = a->value;
		if (fd < 0 && (made = nv_take_fd(p, 0)) < 0)
			error = EPROTO;
		nv_close_fds(p);
	}
	return nv_leave(p, &entry, error) == 0 ? made : -1;
}

int nv_netlink_open(int type) {
	uint32_t value = 0;
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), fd, error = 0;
	if (kind != SOCK_RAW && kind != SOCK_DGRAM) {
		errno = ESOCKTNOSUPPORT;
		return -1;
	}
	fd = ask(-1, NV_NETLINK_OPEN, &value);
	if (fd < 0) {
		if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS)
			errno = EPROTONOSUPPORT; /* as from a kernel without RDMA; there is no server */
		return -1;
	}
	if (!(type & SOCK_CLOEXEC) && fcntl(fd, F_SETFD, 0) != 0)
		error = errno;
	if (error == 0 && (type & SOCK_NONBLOCK) && fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
		error = errno;
	if (error == 0)
		return fd;
	close(fd);
	errno = error;
	return -1;
}

int nv_netlink_bind(int fd, const struct sockaddr_nl *a) {
	uint32_t port, groups = a->nl_groups;
	union name peer;
	int error = 0;
	if (!peer_of(fd, &peer)) {
		errno = EINVAL;
		return -1;
	}
	port = port_of(fd);
	if (port)
		error = a->nl_pid == port ? 0 : EINVAL;
	else
		error = a->nl_pid ? take_port(fd, &peer, a->nl_pid) : take_any_port(fd, &peer);
	if (error) {
		errno = error;
		return -1;
	}
	return groups ? ask(fd, NV_NETLINK_GROUPS, &groups) : 0;
}

int nv_netlink_reach(int fd, const struct sockaddr_nl *to) {
	union name peer;
	int error = 0;
	if (to->nl_groups)
		error = EPERM;
	else if (to->nl_pid)
		error = ECONNREFUSED; /* there is nobody but the server */
	else if (!peer_of(fd, &peer))
		error = EINVAL;
	else if (!port_of(fd))
		error = take_any_port(fd, &peer);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

/* Stores an address of this family, cut to the room that the program has. */
static void store(struct sockaddr *to, socklen_t room, socklen_t *length, uint32_t port, uint32_t groups) {
	struct sockaddr_nl a;
	memset(&a, 0, sizeof a);
	a.nl_family = AF_NETLINK;
	a.nl_pid = port;
	a.nl_groups = groups;
	memcpy(to, &a, room < sizeof a ? room : sizeof a);
	*length = sizeof a;
}

int nv_netlink_name(int fd, struct sockaddr *to, socklen_t room, socklen_t *length) {
	uint32_t groups = 0;
	if (ask(fd, NV_NETLINK_GET | NV_NETLINK_GROUPS, &groups) < 0)
		return -1;
	store(to, room, length, port_of(fd), groups);
	return 0;
}

void nv_netlink_peer(struct sockaddr *to, socklen_t room, socklen_t *length) { store(to, room, length, 0, 0); }

int nv_netlink_set(int fd, int option, uint32_t value) { return ask(fd, (uint32_t)option, &value); }

int nv_netlink_get(int fd, int option, uint32_t *value) {
	*value = 0;
	return ask(fd, NV_NETLINK_GET | (uint32_t)option, value);
}

/* Removes the server's note that messages were lost, if the program has only peeked at it. */
static ssize_t lost(int fd, int flags) {
	char note[sizeof(struct nlmsghdr)];
	ssize_t n = 0;
	if (flags & MSG_PEEK)
		n = NV_PLAIN(recvfrom)(fd, note, sizeof note, MSG_DONTWAIT, NULL, NULL);
	(void)n; /* another thread may have read it */
	errno = ENOBUFS;
	return -1;
}

ssize_t nv_netlink_received(int fd, ssize_t n, const void *data, int flags, struct sockaddr *from,
                            socklen_t room, socklen_t *length) {
	const struct nlmsghdr *h = data;
	int error = errno;
	if (n == 0 && data && nv_is_netlink(fd)) { /* on a netlink socket nothing ever ends */
		errno = ECONNRESET;
		return -1;
	}
	errno = error;
	if (n <= 0 || !from || !is_ours(from, room, *length))
		return n;
	if (n == sizeof *h && data && h->nlmsg_type == NLMSG_OVERRUN)
		return lost(fd, flags);
	store(from, room, length, 0, 0);
	return n;
}
