/* The addresses of the network namespace, for the GID table of its devices. Only a process in
 * the namespace can list them. The list comes from the kernel's netlink socket rather than from
 * getifaddrs, which allocates memory. */
#include "shim.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "real.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* So many addresses are sent at most; the server's tables are shorter. */
enum { MOST = 1024 };

static bool name_of(int fd, uint32_t ifindex, char *name) {
	struct ifreq r;
	memset(&r, 0, sizeof r);
	r.ifr_ifindex = (int)ifindex;
	if (syscall(SYS_ioctl, fd, SIOCGIFNAME, &r) != 0)
		return false;
	memcpy(name, r.ifr_name, IFNAMSIZ);
	return true;
}

/* Stores the address of a message in *a. Returns false if there is none for the table. */
static bool address_of(int fd, const struct nlmsghdr *m, struct nv_address *a) {
	const struct ifaddrmsg *i = NLMSG_DATA(m);
	const struct rtattr *r = IFA_RTA(i);
	size_t size = i->ifa_family == AF_INET6 ? 16 : 4;
	int left = (int)IFA_PAYLOAD(m);
	bool found = false;
	if (i->ifa_family != AF_INET && i->ifa_family != AF_INET6)
		return false;
	for (; RTA_OK(r, left); r = RTA_NEXT(r, left)) {
		/* Of a link with two ends, IFA_ADDRESS is the other end. */
		if (RTA_PAYLOAD(r) < size || (r->rta_type != IFA_LOCAL && (r->rta_type != IFA_ADDRESS || found)))
			continue;
		memcpy(a->gid + 16 - size, RTA_DATA(r), size);
		found = true;
	}
	if (size == 4)
		a->gid[10] = a->gid[11] = 0xff;
	a->ifindex = i->ifa_index;
	a->prefix = i->ifa_prefixlen;
	return found && name_of(fd, a->ifindex, a->ifname);
}

/* Appends the addresses in a datagram of the kernel to the request. Returns true after the last. */
static bool append(struct nv_process *p, int fd, const struct nlmsghdr *m, size_t length, uint32_t *count) {
	for (; NLMSG_OK(m, length); m = NLMSG_NEXT(m, length)) {
		struct nv_address a, *to;
		if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR)
			return true;
		memset(&a, 0, sizeof a);
		if (m->nlmsg_type != RTM_NEWADDR || m->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifaddrmsg)) ||
		    !address_of(fd, m, &a))
			continue;
		if (*count == MOST || !(to = nv_room(p, sizeof a)))
			return true;
		*to = a;
		++*count;
	}
	return false;
}

/* The answers are read into p->in, which is free between two requests. */
static void list(struct nv_process *p, int fd, uint32_t *count) {
	struct {
		struct nlmsghdr header;
		struct ifaddrmsg body;
	} ask;
	struct timeval patience = {5, 0};
	ssize_t n;
	memset(&ask, 0, sizeof ask);
	ask.header.nlmsg_len = sizeof ask;
	ask.header.nlmsg_type = RTM_GETADDR;
	ask.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	NV_REAL(setsockopt)(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (send(fd, &ask, sizeof ask, 0) != (ssize_t)sizeof ask)
		return;
	do {
		do
			n = recv(fd, p->in, sizeof p->in, 0);
		while (n < 0 && errno == EINTR);
	} while (n > 0 && !append(p, fd, (const struct nlmsghdr *)p->in, (size_t)n, count));
}

int nv_tell_addresses(struct nv_process *p) {
	const struct nv_network *w = (const struct nv_network *)(p->in + sizeof(struct nv_header));
	struct nv_addresses *h;
	uint32_t count = 0;
	socklen_t size;
	int fd, error;
	nv_begin(p, NV_ADDRESSES, 0);
	h = nv_room(p, sizeof *h);
	fd = NV_REAL(socket)(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd >= 0) {
		size = sizeof h->cookie;
		if (NV_REAL(getsockopt)(fd, SOL_SOCKET, SO_NETNS_COOKIE, &h->cookie, &size) != 0)
			h->cookie = 0;
		list(p, fd, &count);
		close(fd);
	}
	h->count = count;
	error = nv_ask(p);
	if (error)
		return error;
	if (p->in_length < sizeof(struct nv_header) + sizeof *w || w->tree[sizeof w->tree - 1])
		return EPROTO;
	nv_set_root(p, w->tree);
	return 0;
}
