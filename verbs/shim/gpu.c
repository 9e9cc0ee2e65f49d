/* Memory of the program that the driver of NVIDIA's GPUs pins, by the ioctl with which cudaHostRegister and
 * cudaHostAlloc of libcuda 580 end, whichever copy of the runtime a program has.
 *
 * Registers are I/O memory of a NIC, and programs say so (cudaHostRegisterIoMemory). Here they are ordinary
 * memory, for which the driver refuses such flags. So it is asked once more, for ordinary memory.
 *
 * Pages that are pinned must not be replaced: the GPU would go on with the old ones. So this library knows
 * which they are, and pages that would go back to the program wait until they are unpinned. */
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "real.h"

/* nvos.h, nv_escape.h and nv-ioctl.h of the driver's open modules. */
enum { TYPE = 'F', ALLOC_MEMORY = 0x27, FREE = 0x29 };
enum { OS_DESCRIPTOR = 0x71 };       /* a class: memory of the process */
enum { KINDS = 0xfff0, IO = 0,       /* flags: physicality, location and coherency, of I/O memory */
       ORDINARY = 0x1010 };          /* of ordinary memory: pages anywhere, cached */
enum { INVALID_FLAGS = 0x29 };       /* the status of ordinary memory with the flags of I/O memory */

struct memory { /* nv_ioctl_nvos02_parameters_with_fd */
	uint32_t root, parent, object, class, flags, zero;
	uint64_t address, limit;
	uint32_t status, zero_too;
	int32_t fd;
	uint32_t zero_three;
};

struct release { /* NVOS00_PARAMETERS */
	uint32_t root, parent, object, status;
};

/* A range that is pinned, or may be soon, or was moved and is to be the program's own again when nothing
 * there is pinned any more. */
struct nv_pin {
	struct nv_pin *next;
	uint64_t from, to;
	uint64_t number; /* in the order in which the driver answered; 0: it has not yet */
	uint32_t root, parent, object;
};

static bool gpu;

void nv_open_gpu(void) { __atomic_store_n(&gpu, true, __ATOMIC_RELAXED); }

bool nv_has_gpu(void) { return __atomic_load_n(&gpu, __ATOMIC_RELAXED); }

static bool overlaps(const struct nv_pin *n, uint64_t addr, uint64_t length) {
	return n->from < addr + length && addr < n->to;
}

bool nv_pinned(const struct nv_process *p, uint64_t addr, uint64_t length) {
	const struct nv_pin *n;
	for (n = p->pins; n; n = n->next)
		if (overlaps(n, addr, length))
			return true;
	return false;
}

void nv_back_unpinned(struct nv_process *p, uint64_t addr, uint64_t length) {
	struct nv_pin *late;
	if (!nv_pinned(p, addr, length)) {
		nv_back(addr, length);
		return;
	}
	/* Not by malloc, under the lock. Without memory the pages stay shared, although nobody shares them. */
	late = nv_sys_mmap(NULL, sizeof *late, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (late == MAP_FAILED)
		return;
	late->from = addr;
	late->to = addr + length;
	late->next = p->late;
	p->late = late;
}

/* Takes those of a list for which f is true, and returns them as a list. */
static struct nv_pin *take(struct nv_pin **link, bool (*f)(const struct nv_pin *, const void *),
                           const void *with) {
	struct nv_pin *taken = NULL, *n;
	while ((n = *link))
		if (f(n, with)) {
			*link = n->next;
			n->next = taken;
			taken = n;
		} else {
			link = &n->next;
		}
	return taken;
}

static bool is_empty(const struct nv_pin *n, const void *with) {
	(void)with;
	return n->from >= n->to;
}

static void unmap_all(struct nv_pin *list) {
	struct nv_pin *n;
	while ((n = list)) {
		list = n->next;
		munmap(n, sizeof *n);
	}
}

/* Of a range in whose middle the pages are, the end is forgotten too: it stays shared. */
void nv_not_late(struct nv_process *p, uint64_t addr, uint64_t length) {
	struct nv_pin *n;
	for (n = p->late; n; n = n->next)
		if (overlaps(n, addr, length)) {
			if (n->from < addr)
				n->to = addr;
			else
				n->from = addr + length;
		}
	unmap_all(take(&p->late, is_empty, NULL));
}

static bool is_free(const struct nv_pin *n, const void *with) {
	return !nv_pinned(with, n->from, n->to - n->from);
}

struct gone {
	const struct release *what;
	uint64_t before; /* a number: an object that the driver made later is another one */
};

/* With a device or a client its memory is freed too. */
static bool is_gone(const struct nv_pin *n, const void *with) {
	const struct gone *g = with;
	const struct release *r = g->what;
	return n->number && n->number < g->before && n->root == r->root &&
	       (r->object == n->object || r->object == n->parent || r->object == n->root);
}

static bool is_same(const struct nv_pin *n, const void *with) { return n == with; }

/* Reports whether all of a range is memory that the server or the engine has made, such as registers. */
static bool all_served(uint64_t at, uint64_t end) {
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

bool nv_is_gpu_ioctl(unsigned long request) {
	return _IOC_TYPE(request) == TYPE && nv_has_gpu() && nv_dir() &&
	       ((_IOC_NR(request) == ALLOC_MEMORY && _IOC_SIZE(request) == sizeof(struct memory)) ||
	        (_IOC_NR(request) == FREE && _IOC_SIZE(request) == sizeof(struct release)));
}

/* The driver has written its status, so *r is the caller's memory. Pages that are not pinned any more go back
 * before the program can free them. */
static void unpin(const struct release *r, uint64_t before) {
	struct gone g = {r, before};
	struct nv_pin *gone, *late, *n;
	struct nv_entry entry;
	struct nv_process *p = nv_enter(&entry);
	if (!p)
		return;
	gone = take(&p->pins, is_gone, &g);
	late = gone ? take(&p->late, is_free, p) : NULL;
	for (n = late; n; n = n->next)
		nv_back(n->from, n->to - n->from);
	nv_leave(p, &entry, 0);
	while ((n = gone)) {
		gone = n->next;
		free(n);
	}
	unmap_all(late);
}

/* Returns the number that the driver's next answer would have; 0: this process keeps no list. */
static uint64_t next_number(void) {
	struct nv_entry entry;
	struct nv_process *p = nv_enter(&entry);
	uint64_t number;
	if (!p)
		return 0;
	number = p->answers + 1;
	nv_leave(p, &entry, 0);
	return number;
}

static int release(int fd, unsigned long request, void *arg) {
	uint64_t before = next_number();
	int result = NV_REAL(ioctl)(fd, request, arg), error = errno;
	if (result == 0 && before && ((struct release *)arg)->status == 0)
		unpin(arg, before);
	errno = error;
	return result;
}

/* Asks the driver, and once more if it has refused registers as I/O memory: here they are ordinary memory. */
static int ask(int fd, unsigned long request, struct memory *m) {
	int result = NV_REAL(ioctl)(fd, request, m), error = errno;
	uint32_t flags = m->flags;
	if (result != 0 || m->status != INVALID_FLAGS || (flags & KINDS) != IO ||
	    !all_served(m->address, m->address + m->limit + 1))
		return result;
	m->flags |= ORDINARY;
	if (NV_REAL(ioctl)(fd, request, m) != 0)
		m->status = INVALID_FLAGS; /* the first answer counts */
	m->flags = flags;
	errno = error;
	return 0;
}

/* The range is in the list before the driver pins it, so that no other thread moves its pages meanwhile. */
static int alloc(int fd, unsigned long request, void *arg) {
	struct nv_pin *made = malloc(sizeof *made);
	struct nv_process *p;
	struct nv_entry entry;
	struct memory m;
	int result, error;
	if (!made) {
		errno = ENOMEM;
		return -1;
	}
	p = nv_enter(&entry);
	if (!p || nv_fetch(p, &m, (uint64_t)(uintptr_t)arg, sizeof m) != 0 || m.class != OS_DESCRIPTOR ||
	    m.address + m.limit + 1 <= m.address) {
		if (p)
			nv_leave(p, &entry, 0);
		free(made);
		return NV_REAL(ioctl)(fd, request, arg);
	}
	made->from = m.address;
	made->to = m.address + m.limit + 1;
	made->number = 0;
	made->root = m.root;
	made->parent = m.parent;
	made->object = m.object;
	made->next = p->pins;
	p->pins = made;
	nv_leave(p, &entry, 0);
	result = ask(fd, request, arg);
	error = errno;
	p = nv_enter(&entry);
	if (p && result == 0 && ((struct memory *)arg)->status == 0)
		made->number = ++p->answers;
	else if (p)
		take(&p->pins, is_same, made);
	if (p) {
		bool dropped = made->number == 0;
		nv_leave(p, &entry, 0);
		if (dropped)
			free(made);
	}
	errno = error;
	return result;
}

int nv_gpu_ioctl(int fd, unsigned long request, void *arg) {
	return _IOC_NR(request) == FREE ? release(fd, request, arg) : alloc(fd, request, arg);
}
