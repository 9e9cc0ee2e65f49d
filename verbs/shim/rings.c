/* Memory of which the program has asked for a part. The server may answer a mapping of a context with more
 * memory than that (nv_mapped.given); the rest is kept for the next mappings of the kind, which then need no
 * request. So most rings of queues cost no memory of their own, and neither a round trip.
 *
 * The bytes are given from the end to the beginning, as the kernel places mappings. Below a ring there is
 * then memory that can be read, and libmlx5 before 64.0 reads there: it looks for results in a completion of
 * 128 bytes in front of that completion. */
#include "shim.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

enum {
	ROOM = 128 * 1024, /* bytes that are reserved for an answer with more memory */
	LARGE = ROOM / 4   /* a mapping that is larger gets no room */
};

/* Forgets the rest of a memory. The server counts on this: it ends memory of which nothing is mapped. */
static void forget(struct nv_rest *r) {
	if (r->at < r->end)
		NV_SYSCALL(SYS_munmap, r->at, r->end - r->at); /* memory hooks of the program wrap munmap */
	r->at = r->end = 0;
}

/* The rest that a context has, for the kind of mapping; NULL if it has none. */
static struct nv_rest *find(struct nv_process *p, const struct nv_identity *context, uint64_t offset) {
	int i;
	for (i = 0; i < NV_RESTS; i++) {
		struct nv_rest *r = &p->rests[i];
		if (r->at < r->end && r->generation == p->generation && r->context.ino == context->ino &&
		    r->context.cookie == context->cookie && (r->offset & r->alike) == (offset & r->alike))
			return r;
	}
	return NULL;
}

static bool ring(const void *at, size_t length, int prot, int flags) {
	return !at && length <= LARGE && prot == (PROT_READ | PROT_WRITE) && flags == MAP_SHARED;
}

void *nv_rest_take(struct nv_process *p, const struct nv_identity *context, const void *at, size_t length,
                   int prot, int flags, uint64_t offset) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct nv_rest *r = ring(at, length, prot, flags) ? find(p, context, offset) : NULL;
	if (!r || length == 0)
		return NULL;
	length = (length + page - 1) & ~(page - 1);
	if (length > r->end - r->at) {
		forget(r);
		return NULL;
	}
	r->end -= length;
	return (void *)(uintptr_t)r->end;
}

size_t nv_rest_room(const struct nv_process *p, const void *at, size_t length, int prot, int flags) {
	return p->minor > 0 && ring(at, length, prot, flags) ? ROOM : length;
}

void nv_rest_keep(struct nv_process *p, const struct nv_identity *context, uint64_t offset, uint64_t alike,
                  uint64_t at, uint64_t end) {
	struct nv_rest *r = NULL;
	int i;
	for (i = 0; i < NV_RESTS && !r; i++)
		if (p->rests[i].at >= p->rests[i].end || p->rests[i].generation != p->generation)
			r = &p->rests[i];
	if (!r)
		r = &p->rests[p->next_rest++ % NV_RESTS];
	forget(r);
	r->context = *context;
	r->generation = p->generation;
	r->offset = offset;
	r->alike = alike;
	r->at = at;
	r->end = end;
}
