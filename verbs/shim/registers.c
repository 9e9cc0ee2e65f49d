/* UAR pages. Programs map them one by one at any time, but sealed memory cannot be mapped for
 * writing any more. So all UAR pages of a context are mapped at once, before they are sealed.
 * The program gets copies of that mapping (mremap), which the seal does not forbid. */
#include "shim.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

/* The UAR pages of one context. This structure is in a page of its own, right before the
 * mapping. A child of a fork inherits neither: its process state is empty, so it has no reference to them. */
struct nv_registers {
	struct nv_registers *next;
	struct nv_identity context;
	size_t length; /* bytes of the mapping */
};

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static uint8_t *mapping(struct nv_registers *r) { return (uint8_t *)r + page_size(); }

static struct nv_registers *find(const struct nv_process *p, const struct nv_identity *context) {
	struct nv_registers *r = p->registers;
	while (r && (r->context.ino != context->ino || r->context.cookie != context->cookie))
		r = r->next;
	return r;
}

/* Unmaps the UAR pages of contexts that have ended. This library does not see when a program
 * closes a descriptor, so the server marks the end of a context in the context's UAR pages. */
static void forget_ended(struct nv_process *p) {
	struct nv_registers **link = &p->registers, *r;
	while ((r = *link)) {
		if (__atomic_load_n((const uint32_t *)(mapping(r) + NV_GONE), __ATOMIC_RELAXED)) {
			*link = r->next;
			munmap(r, page_size() + r->length);
		} else {
			link = &r->next;
		}
	}
}

static int map_all(struct nv_process *p, const struct nv_identity *context, int memory, size_t length) {
	size_t page = page_size(), whole = page + length;
	struct nv_registers *r;
	void *at;
	int error = 0;
	if (length % page || whole < length)
		return EPROTO;
	at = nv_sys_mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return errno;
	r = at;
	if (nv_sys_mmap(mapping(r), length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) ==
	        MAP_FAILED ||
	    madvise(at, whole, MADV_DONTFORK) != 0)
		error = errno;
	if (error == 0)
		error = nv_seal(memory);
	if (error) {
		munmap(at, whole);
		return error;
	}
	r->context = *context;
	r->length = length;
	r->next = p->registers;
	p->registers = r;
	return 0;
}

int nv_map_registers(struct nv_process *p, const struct nv_identity *context, const struct nv_mapped *m,
                     int memory, void *at, size_t length, int prot) {
	struct nv_registers *r;
	int error;
	if (memory >= 0) {
		forget_ended(p);
		error = map_all(p, context, memory, m->whole);
		if (error)
			return error;
	}
	r = find(p, context);
	if (!r || m->offset >= r->length || length > r->length - m->offset)
		return EPROTO;
	error = nv_map_copy((uint64_t)(uintptr_t)(mapping(r) + m->offset), at, length, prot);
	return error == 0 && madvise(at, length, MADV_DOFORK) != 0 ? errno : error;
}

int nv_map_copy(uint64_t from, void *at, size_t length, int prot) {
	/* With an old length of 0, mremap copies a shared mapping, and refuses another one. The
	 * function mremap of a program may be UCX's, which does not pass the last argument on. */
	if (!from)
		return EPROTO;
	if (NV_SYSCALL(SYS_mremap, from, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, at) != (long)(uintptr_t)at)
		return errno;
	return prot == (PROT_READ | PROT_WRITE) || mprotect(at, length, prot) == 0 ? 0 : errno;
}
