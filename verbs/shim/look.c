/* Programs look for devices in places where these devices are not: hardware is below a network interface, and
 * in the list of all PCI functions. The server is told once, so that it can say so of a program that finds
 * nothing. */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <unistd.h>

#include "real.h"

/* Returns the NV_AT_* of a path, or -1. */
static int place_of(const char *path) {
	static const char functions[] = "/sys/bus/pci/devices", driver[] = "/sys/bus/pci/drivers/mlx5_core",
	                  interfaces[] = "/sys/class/net/";
	const char *device;
	if (strcmp(path, functions) == 0 || strncmp(path, driver, sizeof driver - 1) == 0)
		return NV_AT_PCI;
	if (strncmp(path, interfaces, sizeof interfaces - 1) != 0)
		return -1;
	device = strstr(path + sizeof interfaces - 1, "/device/infiniband");
	return device && NV_SYSCALL(SYS_faccessat, AT_FDCWD, path, F_OK) != 0 ? NV_AT_NETDEV : -1;
}

void nv_report_looks(struct nv_process *p) {
	uint32_t new = __atomic_load_n(&p->looked, __ATOMIC_RELAXED) & ~p->reported, place;
	struct nv_look *q;
	p->reported |= new;
	for (place = 0; p->minor > 0 && new >> place; place++) {
		if (!(new >> place & 1))
			continue;
		nv_begin(p, NV_LOOK, 0);
		q = nv_room(p, sizeof *q);
		q->place = place;
		nv_ask(p);
		nv_close_fds(p);
	}
}

/* A program that does nothing else with RDMA gets no connection for this. */
void nv_look(const char *path) {
	int error = errno, place = place_of(path);
	struct nv_process *p = place < 0 ? NULL : nv_peek();
	struct nv_entry entry;
	if (p && !(__atomic_fetch_or(&p->looked, 1u << place, __ATOMIC_RELAXED) >> place & 1) &&
	    __atomic_load_n(&p->generation, __ATOMIC_RELAXED)) {
		p = nv_enter(&entry);
		if (p && nv_connected(p))
			nv_report_looks(p);
		if (p)
			nv_leave(p, &entry, 0);
	}
	errno = error;
}
