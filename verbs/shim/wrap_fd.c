/* ioctl on devices, and the netlink socket that would tell of other devices. */
#include "shim.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include "real.h"

/* Every other ioctl is left to the kernel: to a socket it says ENOTTY, as a
 * device would, and what it does to every descriptor it does to ours. */
NV_EXPORT int ioctl(int fd, unsigned long request, ...) {
	va_list args;
	void *arg;
	int error;
	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if ((uint32_t)request == (uint32_t)RDMA_VERBS_IOCTL && nv_dir()) {
		error = nv_ioctl(fd, (uint64_t)(uintptr_t)arg);
		if (error == 0)
			return 0;
		if (error != ENOTTY) {
			errno = error;
			return -1;
		}
	}
	return NV_REAL(ioctl)(fd, request, arg);
}

/* libibverbs asks there first, and would not look at our tree if it were answered. */
NV_EXPORT int socket(int domain, int type, int protocol) {
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && nv_dir()) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return NV_REAL(socket)(domain, type, protocol);
}
