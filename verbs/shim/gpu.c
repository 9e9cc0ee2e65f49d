/* Memory of the program that the driver of NVIDIA's GPUs pins, by the ioctl with which cudaHostRegister and
 * cudaHostAlloc end, whichever copy of the runtime a program has.
 *
 * Registers are I/O memory of a NIC, and programs say so (cudaHostRegisterIoMemory). Here they are ordinary
 * memory, for which the driver refuses that. So it is asked once more, for ordinary memory.
 *
 * Pages that are pinned must not be replaced: the GPU would go on with the old ones. So this library knows
 * which they are. */
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "real.h"

/* nvos.h, nv_escape.h and nv-ioctl.h of the driver's open modules. */
enum { TYPE = 'F', ALLOC_MEMORY = 0x27, FREE = 0x29 };
enum { OS_DESCRIPTOR = 0x71 };       /* a class: memory of the process */
enum { KINDS = 0xfff0, IO = 0,       /* flags: physicality, location and coherency, of I/O memory */
       ORDINARY = 0x1010 };          /* of ordinary memory: pages anywhere, cached */

struct memory { /* NVOS02_PARAMETERS and what may follow */
	uint32_t root, parent, object, class, flags, zero;
	uint64_t address, limit;
	uint32_t status, zero_too;
};

struct release { /* NVOS00_PARAMETERS */
	uint32_t root, parent, object, status;
};

struct nv_pin {
	struct nv_pin *next;
	uint64_t from, to;
	uint32_t root, parent, object;
};

static bool gpu;

void nv_open_gpu(void) { __atomic_store_n(&gpu, true, __ATOMIC_RELAXED); }

bool nv_has_gpu(void) { return __atomic_load_n(&gpu, __ATOMIC_RELAXED); }

bool nv_pinned(const struct nv_process *p, uint64_t addr, uint64_t length) {
	const struct nv_pin *n;
	for (n = p->pins; n; n = n->next)
		if (n->from < addr + length && addr < n->to)
			return true;
	return false;
}

/* Reports whether all of a range is memory that the server has made, such as registers. */
static bool is_served(uint64_t at, uint64_t end) {
	struct nv_mapping v;
	struct nv_maps maps;
	bool is = at < end && nv_maps_open(&maps) == 0;
	if (!is)
		return false;
	while (is && at < end) {
		is = nv_maps_next(&maps, at, &v) == 0 && v.start <= at && v.served;
		at = v.end;
	}
	nv_maps_close(&maps);
	return is;
}

static void pin(const struct memory *m) {
	struct nv_pin *made = malloc(sizeof *made);
	struct nv_process *p;
	struct nv_entry entry;
	if (!made)
		return;
	made->from = m->address;
	made->to = m->address + m->limit + 1;
	made->root = m->root;
	made->parent = m->parent;
	made->object = m->object;
	p = nv_enter(&entry);
	if (!p) {
		free(made);
		return;
	}
	made->next = p->pins;
	p->pins = made;
	nv_leave(p, &entry, 0);
}

/* With a device or a client its memory is freed too. */
static void unpin(const struct release *r) {
	struct nv_pin **link, *gone = NULL, *n;
	struct nv_entry entry;
	struct nv_process *p = nv_enter(&entry);
	if (!p)
		return;
	for (link = &p->pins; (n = *link);)
		if (n->root == r->root && (r->object == n->object || r->object == n->parent || r->object == n->root)) {
			*link = n->next;
			n->next = gone;
			gone = n;
		} else {
			link = &n->next;
		}
	nv_leave(p, &entry, 0);
	while ((n = gone)) {
		gone = n->next;
		free(n);
	}
}

bool nv_is_gpu_ioctl(unsigned long request) {
	return _IOC_TYPE(request) == TYPE && nv_has_gpu() &&
	       ((_IOC_NR(request) == ALLOC_MEMORY && _IOC_SIZE(request) >= sizeof(struct memory)) ||
	        (_IOC_NR(request) == FREE && _IOC_SIZE(request) >= sizeof(struct release)));
}

/* The driver has written its status, so the argument is the caller's memory. */
int nv_gpu_ioctl(int fd, unsigned long request, void *arg) {
	int result = NV_REAL(ioctl)(fd, request, arg), error = errno;
	struct memory *m = arg;
	if (result != 0)
		return result;
	if (_IOC_NR(request) == FREE) {
		if (((struct release *)arg)->status == 0)
			unpin(arg);
	} else if (m->class == OS_DESCRIPTOR && m->limit < m->address + m->limit + 1) {
		if (m->status != 0 && (m->flags & KINDS) == IO && is_served(m->address, m->address + m->limit + 1)) {
			uint32_t flags = m->flags, status = m->status;
			m->flags |= ORDINARY;
			m->status = 0;
			result = NV_REAL(ioctl)(fd, request, arg);
			error = errno;
			m->flags = flags;
			if (result != 0) { /* the answer of the first time counts */
				m->status = status;
				result = 0;
			}
		}
		if (m->status == 0)
			pin(m);
	}
	errno = error;
	return result;
}
