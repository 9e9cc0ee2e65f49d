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

/* Tells the server, called under the lock. A server of minor version 0 would end the connection. */
static void tell(struct nv_process *p, int place) {
	struct nv_look *q;
	if (nv_connect(p) != 0 || p->minor == 0)
		return;
	nv_begin(p, NV_LOOK, 0);
	q = nv_room(p, sizeof *q);
	q->place = (uint32_t)place;
	nv_ask(p);
	nv_close_fds(p);
}

void nv_look(const char *path) {
	int error = errno, place = place_of(path);
	const struct nv_process *seen = nv_peek();
	struct nv_entry entry;
	struct nv_process *p;
	if (place >= 0 && !(seen && (__atomic_load_n(&seen->looked, __ATOMIC_RELAXED) >> place & 1))) {
		p = nv_enter(&entry);
		if (p) {
			__atomic_fetch_or(&p->looked, 1u << place, __ATOMIC_RELAXED);
			tell(p, place);
			nv_leave(p, &entry, 0);
		}
	}
	errno = error;
}
