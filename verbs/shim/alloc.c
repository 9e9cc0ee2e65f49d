/* Memory that is shared with the engine from the start, for programs that ask for it
 * (include/nicless/alloc.h). The engine works in this memory directly, so the kernel does
 * not have to copy. */
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

NV_EXPORT void *nicless_alloc(size_t size);
NV_EXPORT int nicless_free(void *at);

struct piece {
	struct piece *next;
	void *at;
	size_t length;
	uint32_t generation;
};

/* Changed under the lock. Every change is a single store, so that the copy that a fork makes
 * is consistent. */
static struct piece *pieces;

/* Returns at least `size` bytes of zeros, at the start of a page; NULL, with errno set, on
 * failure. */
NV_EXPORT void *nicless_alloc(size_t size) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct piece *made;
	struct nv_process *p;
	struct nv_entry entry;
	int error;
	if (!nv_dir()) {
		errno = ENODEV;
		return NULL;
	}
	if (size == 0 || size > SIZE_MAX - page) {
		errno = size ? ENOMEM : EINVAL;
		return NULL;
	}
	made = malloc(sizeof *made);
	p = made ? nv_enter(&entry) : NULL;
	if (!p) {
		free(made);
		return NULL;
	}
	made->at = NULL;
	made->length = (size + page - 1) & ~(page - 1);
	error = nv_connect(p);
	if (error == 0)
		error = nv_map(p, NV_ALLOC, NULL, &made->at, made->length, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	if (error == 0) {
		made->generation = p->generation;
		made->next = pieces;
		__atomic_store_n(&pieces, made, __ATOMIC_RELEASE);
	}
	if (nv_leave(p, &entry, error) == 0)
		return made->at;
	free(made);
	return NULL;
}

/* Frees memory of nicless_alloc. Returns 0, or -1 with errno set, for example if the memory is
 * not from nicless_alloc. */
NV_EXPORT int nicless_free(void *at) {
	struct piece **link, *piece;
	struct nv_process *p;
	struct nv_entry entry;
	struct nv_mmap *q;
	if (!nv_dir()) {
		errno = EINVAL;
		return -1;
	}
	p = nv_enter(&entry);
	if (!p)
		return -1;
	for (link = &pieces; *link && (*link)->at != at; link = &(*link)->next)
		;
	piece = *link;
	if (!piece)
		return nv_leave(p, &entry, EINVAL);
	__atomic_store_n(link, piece->next, __ATOMIC_RELEASE);
	munmap(piece->at, piece->length);
	/* The server knows the memory only on the connection over which it was allocated. */
	if (nv_connected(p) && piece->generation == p->generation) {
		nv_begin(p, NV_FREE, 0);
		q = nv_room(p, sizeof *q);
		q->addr = (uint64_t)(uintptr_t)piece->at;
		q->length = piece->length;
		nv_ask(p);
		nv_close_fds(p);
	}
	nv_leave(p, &entry, 0);
	free(piece);
	return 0;
}
