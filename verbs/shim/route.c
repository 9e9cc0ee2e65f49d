/* How the kernel would send to an address. Routes belong to the network namespace, so only a
 * process in it can ask. A UDP socket that is connected sends no packet. */
#include "shim.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "real.h"

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	uint8_t bytes[NV_ADDRESS];
};

static socklen_t size_of(const union address *a) {
	switch (a->any.sa_family) {
	case AF_INET:
		return sizeof a->in;
	case AF_INET6:
		return sizeof a->in6;
	}
	return 0;
}

int nv_find_route(const struct nv_route *r, uint8_t own[NV_ADDRESS]) {
	union address from, to, is;
	socklen_t size = sizeof is;
	int fd, error = 0;
	memcpy(from.bytes, r->from, sizeof from.bytes);
	memcpy(to.bytes, r->to, sizeof to.bytes);
	memset(&is, 0, sizeof is);
	if (size_of(&to) == 0)
		return EAFNOSUPPORT;
	fd = NV_REAL(socket)(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	from.in.sin_port = 0; /* at the same place in both structures: any port */
	if ((size_of(&from) && NV_PLAIN(bind)(fd, &from.any, size_of(&from)) != 0) ||
	    NV_PLAIN(connect)(fd, &to.any, size_of(&to)) != 0 || NV_PLAIN(getsockname)(fd, &is.any, &size) != 0)
		error = errno;
	close(fd);
	memcpy(own, is.bytes, NV_ADDRESS);
	return error;
}
