/* mmap of a device. The addresses are reserved before the server is asked, because the
 * server has to know them. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

void *nv_sys_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset) {
	/* syscall returns a long; libc converts it to a pointer in the same way. */
	return (void *)NV_SYSCALL(SYS_mmap, addr, length, prot, flags, fd, offset);
}

int nv_seal(int memory) {
	int seals = fcntl(memory, F_GET_SEALS);
	if (seals >= 0 && (seals & F_SEAL_FUTURE_WRITE))
		return 0; /* the server sealed the memory, because only the server may write to it */
	return fcntl(memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0 ? 0 : errno;
}

/* The addresses of a mapping. */
struct range {
	void *at;
	size_t length; /* as the program has asked for */
	size_t whole;  /* in whole pages, as a driver gets it */
	size_t room;   /* that is reserved */
	bool reserved; /* by this library, and not by the program */
};

static int reserve(const struct nv_process *p, struct range *r, bool rest, int prot, int flags) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int how = (flags & ~(MAP_TYPE | MAP_POPULATE | MAP_LOCKED)) | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	r->whole = (r->length + page - 1) & ~(page - 1);
	if (r->whole < r->length || r->whole == 0)
		return EINVAL;
	r->room = rest ? nv_rest_room(p, r->at, r->whole, prot, flags) : r->whole;
	r->reserved = !(flags & MAP_FIXED);
	if (!r->reserved)
		return 0;
	r->at = nv_sys_mmap(r->at, r->room, PROT_NONE, how, -1, 0);
	return r->at == MAP_FAILED ? errno : 0;
}

/* Maps the memory of the answer to a request, and returns in *end where the bytes end that are mapped. */
static int map_memory(const struct nv_mapped *m, int fd, const struct range *r, int prot, int flags,
                      size_t *end) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	*end = r->room > r->whole && m->given ? m->given : r->whole;
	if (*end < r->whole || *end > r->room || *end % page)
		return EPROTO;
	if (nv_sys_mmap(r->at, *end, prot, flags, fd, (off_t)m->offset) == MAP_FAILED)
		return errno;
	return nv_seal(fd);
}

int nv_map(struct nv_process *p, uint16_t op, const struct nv_identity *context, void **at, size_t length,
           int prot, int flags, uint64_t offset) {
	const struct nv_mapped *m = (const struct nv_mapped *)(p->in + sizeof(struct nv_header));
	struct range r = {*at, length, 0, 0, false};
	struct nv_mmap *q;
	size_t end;
	int fd, error = reserve(p, &r, op == NV_MMAP, prot, flags);
	if (error)
		return error;
	nv_begin(p, op, context ? context->ino : 0);
	q = nv_room(p, p->minor > 0 ? sizeof *q : offsetof(struct nv_mmap, room));
	q->addr = (uint64_t)(uintptr_t)r.at;
	q->length = r.whole;
	q->offset = offset;
	q->prot = (uint32_t)prot;
	q->flags = (uint32_t)flags;
	if (p->minor > 0)
		q->room = r.room;
	if (r.reserved)
		flags = (flags & ~MAP_FIXED_NOREPLACE) | MAP_FIXED;
	end = r.whole;
	error = nv_ask(p);
	if (error == 0) {
		fd = nv_take_fd(p, 0);
		nv_close_fds(p);
		if (p->in_length < sizeof(struct nv_header) + offsetof(struct nv_mapped, given) ||
		    (p->minor > 0 && p->in_length < sizeof(struct nv_header) + sizeof *m))
			error = EPROTO;
		else if (m->whole)
			error = context ? nv_map_registers(p, context, m, fd, r.at, length, prot) : EPROTO;
		else if (fd < 0)
			error = nv_map_copy(m->offset, r.at, length, prot);
		else
			error = map_memory(m, fd, &r, prot, flags, &end);
		if (fd >= 0)
			close(fd);
	}
	if (error)
		end = 0;
	if (r.reserved && end < r.room)
		NV_SYSCALL(SYS_munmap, (char *)r.at + end, r.room - end); /* see rings.c */
	*at = r.at;
	if (error == 0 && end > r.whole) {
		*at = (char *)r.at + (end - r.whole);
		nv_rest_keep(p, context, offset, m->alike, (uint64_t)(uintptr_t)r.at, (uint64_t)(uintptr_t)*at);
	}
	return error;
}

/* Reports whether fd is a device, and if so stores the result of mmap. */
static bool map_device(void **result, void *at, size_t length, int prot, int flags, int fd, off_t offset) {
	struct nv_context c;
	struct nv_entry entry;
	struct nv_process *p;
	void *rest;
	int error;
	if (fd < 0 || (flags & MAP_ANONYMOUS) || !nv_dir() || !nv_context_of(fd, NULL, &c))
		return false;
	*result = MAP_FAILED;
	p = nv_enter(&entry);
	if (!p)
		return true;
	error = nv_adopt(p, fd, &c);
	if (error == 0 && (!nv_connected(p) || c.generation != p->generation))
		error = EIO;
	rest = error ? NULL : nv_rest_take(p, &c.id, at, length, prot, flags, (uint64_t)offset);
	if (rest)
		at = rest;
	else if (error == 0)
		error = nv_map(p, NV_MMAP, &c.id, &at, length, prot, flags, (uint64_t)offset);
	if (nv_leave(p, &entry, error) == 0)
		*result = at;
	return true;
}

NV_EXPORT void *mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset) {
	void *result;
	return map_device(&result, at, length, prot, flags, fd, offset)
	           ? result
	           : NV_REAL(mmap)(at, length, prot, flags, fd, offset);
}

NV_EXPORT void *mmap64(void *at, size_t length, int prot, int flags, int fd, off64_t offset) {
	void *result;
	return map_device(&result, at, length, prot, flags, fd, offset)
	           ? result
	           : NV_REAL(mmap64)(at, length, prot, flags, fd, offset);
}

/* Some libraries overwrite the first instructions of mmap, to observe every mapping, and then
 * make the system call by this function: the memory hooks of UCX and of Open MPI. Their calls
 * never arrive at the wrapper above. */
NV_EXPORT long syscall(long number, ...) {
	long a, b, c, d, e, f;
	uint64_t moved;
	long forked;
	void *result;
	va_list args;
	int done;
	va_start(args, number); /* the C library's function reads six arguments too, however many were passed */
	a = va_arg(args, long);
	b = va_arg(args, long);
	c = va_arg(args, long);
	d = va_arg(args, long);
	e = va_arg(args, long);
	f = va_arg(args, long);
	va_end(args);
	if (number == SYS_mmap && map_device(&result, (void *)a, (size_t)b, (int)c, (int)d, (int)e, f))
		return (long)result;
	if (number == SYS_madvise && nv_madvise(&done, (uint64_t)a, (uint64_t)b, (int)c))
		return done;
	if (number == SYS_mremap && nv_mremap(&moved, (uint64_t)a, (uint64_t)b, (uint64_t)c, (int)d, (uint64_t)e))
		return (long)moved;
	if (nv_is_fork(number, (uint64_t)a, (uint64_t)b)) {
		nv_before_fork();
		forked = NV_SYSCALL(number, a, b, c, d, e, f);
		(forked == 0 ? nv_fork_in_child : nv_fork_in_parent)();
		return forked;
	}
	return NV_SYSCALL(number, a, b, c, d, e, f);
}
