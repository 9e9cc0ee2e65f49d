/* The functions of sockets, for sockets of NETLINK_RDMA (netlink.c). All others are passed on: their
 * arguments, or the address that the kernel answers, tell nearly all of them apart without a system call.
 * Those of unix sockets and the ends of files cost one more. */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "real.h"

/* The C library's headers declare addresses as a union of pointers for GNU C. */
#ifdef __GLIBC__
typedef __CONST_SOCKADDR_ARG nv_to;
typedef __SOCKADDR_ARG nv_from;
#define NV_POINTER(a) ((a).__sockaddr__)
#else
typedef const struct sockaddr *nv_to;
typedef struct sockaddr *nv_from;
#define NV_POINTER(a) (a)
#endif

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

/* Functions of glibc's headers, if a program is compiled with _FORTIFY_SOURCE. */
NV_EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t room, int flags, nv_from from,
                                 socklen_t *length);

/* libibverbs asks the kernel for devices over such a socket first. */
NV_EXPORT int socket(int domain, int type, int protocol) {
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && nv_dir())
		return nv_netlink_open(type);
	return NV_REAL(socket)(domain, type, protocol);
}

/* Returns the address if it is one of netlink, and fd one of our sockets. */
static const struct sockaddr_nl *of_netlink(int fd, const void *a, socklen_t size) {
	const struct sockaddr *any = a;
	if (!any || size < sizeof(struct sockaddr_nl) || any->sa_family != AF_NETLINK || !nv_is_netlink(fd))
		return NULL;
	return a;
}

NV_EXPORT int bind(int fd, nv_to a, socklen_t size) {
	const struct sockaddr_nl *nl = of_netlink(fd, NV_POINTER(a), size);
	return nl ? nv_netlink_bind(fd, nl) : NV_PLAIN(bind)(fd, NV_POINTER(a), size);
}

NV_EXPORT int connect(int fd, nv_to a, socklen_t size) {
	const struct sockaddr_nl *nl = of_netlink(fd, NV_POINTER(a), size);
	return nl ? nv_netlink_reach(fd, nl) : NV_PLAIN(connect)(fd, NV_POINTER(a), size);
}

/* Our sockets have no name, or one in the abstract namespace, until the answer is changed. */
static bool may_be_ours(const struct sockaddr *a, socklen_t room) {
	return room >= sizeof a->sa_family && a->sa_family == AF_UNIX;
}

NV_EXPORT int getsockname(int fd, nv_from a, socklen_t *size) {
	socklen_t room = size ? *size : 0;
	int result = NV_PLAIN(getsockname)(fd, NV_POINTER(a), size);
	if (result != 0 || !may_be_ours(NV_POINTER(a), room) || !nv_is_netlink(fd))
		return result;
	return nv_netlink_name(fd, NV_POINTER(a), room, size);
}

NV_EXPORT int getpeername(int fd, nv_from a, socklen_t *size) {
	socklen_t room = size ? *size : 0;
	int result = NV_PLAIN(getpeername)(fd, NV_POINTER(a), size);
	if (result == 0 && may_be_ours(NV_POINTER(a), room) && nv_is_netlink(fd))
		nv_netlink_peer(NV_POINTER(a), room, size);
	return result;
}

NV_EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t size) {
	uint32_t n = 0;
	if (level != SOL_NETLINK || !nv_is_netlink(fd))
		return NV_REAL(setsockopt)(fd, level, option, value, size);
	if (value && size >= sizeof n)
		memcpy(&n, value, sizeof n);
	return nv_netlink_set(fd, option, n);
}

/* The kernel's answers about the socket itself are those for a pair of unix sockets. */
static void seem_netlink(int fd, int option, void *value, const socklen_t *size) {
	int is, seems;
	if (*size != sizeof is)
		return;
	memcpy(&is, value, sizeof is);
	if (option == SO_DOMAIN && is == AF_UNIX)
		seems = AF_NETLINK;
	else if (option == SO_TYPE && is == SOCK_SEQPACKET)
		seems = SOCK_RAW;
	else if (option == SO_PROTOCOL && is == 0)
		seems = NETLINK_RDMA;
	else
		return;
	if (nv_is_netlink(fd))
		memcpy(value, &seems, sizeof seems);
}

NV_EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *size) {
	uint32_t n;
	int result;
	if (level == SOL_NETLINK && value && size && nv_is_netlink(fd)) {
		if (*size < sizeof n) {
			errno = EINVAL;
			return -1;
		}
		if (nv_netlink_get(fd, option, &n) < 0)
			return -1;
		memcpy(value, &n, sizeof n);
		*size = sizeof n;
		return 0;
	}
	result = NV_REAL(getsockopt)(fd, level, option, value, size);
	if (result == 0 && level == SOL_SOCKET && value && size)
		seem_netlink(fd, option, value, size);
	return result;
}

NV_EXPORT ssize_t sendto(int fd, const void *data, size_t size, int flags, nv_to to,
                         socklen_t length) {
	const struct sockaddr_nl *nl = of_netlink(fd, NV_POINTER(to), length);
	if (!nl)
		return NV_PLAIN(sendto)(fd, data, size, flags, NV_POINTER(to), length);
	if (nv_netlink_reach(fd, nl) < 0)
		return -1;
	return NV_PLAIN(sendto)(fd, data, size, flags | MSG_NOSIGNAL, NULL, 0);
}

NV_EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
	const struct sockaddr_nl *nl = m ? of_netlink(fd, m->msg_name, m->msg_namelen) : NULL;
	struct msghdr nameless;
	if (!nl)
		return NV_REAL(sendmsg)(fd, m, flags);
	if (nv_netlink_reach(fd, nl) < 0)
		return -1;
	nameless = *m;
	nameless.msg_name = NULL;
	nameless.msg_namelen = 0;
	return NV_REAL(sendmsg)(fd, &nameless, flags | MSG_NOSIGNAL);
}

NV_EXPORT ssize_t recvfrom(int fd, void *data, size_t size, int flags, nv_from from,
                           socklen_t *length) {
	socklen_t room = NV_POINTER(from) && length ? *length : 0;
	ssize_t n = NV_PLAIN(recvfrom)(fd, data, size, flags, NV_POINTER(from), length);
	return nv_netlink_received(fd, n, size ? data : NULL, flags, room ? NV_POINTER(from) : NULL, room, length);
}

NV_EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t room, int flags, nv_from from,
                                 socklen_t *length) {
	if (size > room) /* ends the program */
		return NV_PLAIN(__recvfrom_chk)(fd, data, size, room, flags, NV_POINTER(from), length);
	return recvfrom(fd, data, size, flags, from, length);
}

NV_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags) {
	socklen_t room = m && m->msg_name ? m->msg_namelen : 0;
	ssize_t n = NV_REAL(recvmsg)(fd, m, flags);
	size_t first = n >= 0 && m->msg_iovlen > 0 ? m->msg_iov[0].iov_len : 0;
	bool into = first >= (n == 0 ? 1 : sizeof(struct nlmsghdr)); /* a header in pieces is not looked at */
	if (n < 0)
		return n;
	return nv_netlink_received(fd, n, into ? m->msg_iov[0].iov_base : NULL, flags,
	                           room ? m->msg_name : NULL, room, &m->msg_namelen);
}
