/* UAR pages. Programs map them one by one at any time, but sealed memory cannot be mapped for
 * writing any more. So all UAR pages of a context are mapped at once, before they are sealed.
 * The program gets copies of that mapping (mremap), which the seal does not forbid.
 *
 * valgrind refuses such a copy, and so may other programs that stand between a program and the
 * kernel. There the UAR pages are mapped SPARES times more before they are sealed, and the
 * program gets a page by moving one of these, which is possible everywhere. */
#include "shim.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

/* How often a program can map each of its pages where it can get no copies. libmlx5 maps a page once, and
 * again only after it has freed it; a page that was unmapped is not returned here. */
enum { SPARES = 16 };

/* The UAR pages of one context. This structure is in a page of its own, right before the
 * mapping. A child of a fork inherits neither: its process state is empty, so it has no reference to them. */
struct nv_registers {
	struct nv_registers *next;
	struct nv_identity context;
	size_t length; /* bytes of the mapping */
	uint8_t *spares; /* SPARES more mappings, one after the other; NULL: there are copies */
	uint8_t moved[1024]; /* number of spares of each page that the program has got */
};

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static uint8_t *mapping(struct nv_registers *r) { return (uint8_t *)r + page_size(); }

static struct nv_registers *find(const struct nv_process *p, const struct nv_identity *context) {
	struct nv_registers *r = p->registers;
	while (r && (r->context.ino != context->ino || r->context.cookie != context->cookie))
		r = r->next;
	return r;
}

static void unmap(struct nv_registers *r) {
	if (r->spares)
		munmap(r->spares, SPARES * r->length);
	munmap(r, page_size() + r->length);
}

/* Unmaps the UAR pages of contexts that have ended. This library does not see when a program
 * closes a descriptor, so the server marks the end of a context in the context's UAR pages. */
static void forget_ended(struct nv_process *p) {
	struct nv_registers **link = &p->registers, *r;
	while ((r = *link)) {
		if (__atomic_load_n((const uint32_t *)(mapping(r) + NV_GONE), __ATOMIC_RELAXED)) {
			*link = r->next;
			unmap(r);
		} else {
			link = &r->next;
		}
	}
}

/* Reports whether a shared mapping can be copied by mremap. */
static bool can_copy(void *from) {
	enum { UNKNOWN, YES, NO };
	static int answer;
	int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
	if (known == UNKNOWN) {
		void *copy = (void *)NV_SYSCALL(SYS_mremap, from, 0, page_size(), MREMAP_MAYMOVE, 0);
		if (copy != MAP_FAILED)
			munmap(copy, page_size());
		else if (errno != EINVAL)
			return true; /* a limit was reached: the next copy may succeed */
		known = copy != MAP_FAILED ? YES : NO;
		__atomic_store_n(&answer, known, __ATOMIC_RELAXED);
	}
	return known == YES;
}

static int map_spares(struct nv_registers *r, int memory) {
	size_t i;
	uint8_t *at = nv_sys_mmap(NULL, SPARES * r->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return errno;
	r->spares = at;
	for (i = 0; i < SPARES; i++)
		if (nv_sys_mmap(at + i * r->length, r->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) ==
		    MAP_FAILED)
			return errno;
	return madvise(at, SPARES * r->length, MADV_DONTFORK) == 0 ? 0 : errno;
}

static int map_all(struct nv_process *p, const struct nv_identity *context, int memory, size_t length) {
	size_t page = page_size(), whole = page + length;
	struct nv_registers *r;
	void *at;
	int error = 0;
	if (length % page || length / page > sizeof r->moved)
		return EPROTO;
	at = nv_sys_mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return errno;
	r = at;
	r->context = *context;
	r->length = length;
	if (nv_sys_mmap(mapping(r), length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) ==
	        MAP_FAILED ||
	    madvise(at, whole, MADV_DONTFORK) != 0)
		error = errno;
	if (error == 0 && !can_copy(mapping(r)))
		error = map_spares(r, memory);
	if (error == 0)
		error = nv_seal(memory);
	if (error) {
		unmap(r);
		return error;
	}
	r->next = p->registers;
	p->registers = r;
	return 0;
}

static int protect(void *at, size_t length, int prot) {
	return prot == (PROT_READ | PROT_WRITE) || mprotect(at, length, prot) == 0 ? 0 : errno;
}

/* Moves a spare mapping of each page to the program. Its old place stays reserved, because forget_ended
 * unmaps all of it. */
static int move_spares(struct nv_registers *r, size_t offset, uint8_t *at, size_t length, int prot) {
	size_t page = page_size(), done;
	for (done = 0; done < length; done += page) {
		uint8_t *moved = &r->moved[(offset + done) / page], *from;
		if (*moved == SPARES)
			return ENOMEM;
		from = r->spares + (size_t)*moved * r->length + offset + done;
		if (NV_SYSCALL(SYS_mremap, from, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at + done) == -1)
			return errno;
		(*moved)++;
		if (nv_sys_mmap(from, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
		    MAP_FAILED)
			return errno;
	}
	return protect(at, length, prot);
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
	error = r->spares ? move_spares(r, m->offset, at, length, prot)
	                  : nv_map_copy((uint64_t)(uintptr_t)(mapping(r) + m->offset), at, length, prot);
	return error == 0 && madvise(at, length, MADV_DOFORK) != 0 ? errno : error;
}

int nv_map_copy(uint64_t from, void *at, size_t length, int prot) {
	/* With an old length of 0, mremap copies a shared mapping, and refuses another one. The
	 * function mremap of a program may be UCX's, which does not pass the last argument on. */
	if (!from)
		return EPROTO;
	if (NV_SYSCALL(SYS_mremap, from, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, at) != (long)(uintptr_t)at)
		return errno;
	return protect(at, length, prot);
}
