/* Which sockets are devices. The table is read at every fstat of a socket, so reading takes
 * no lock; writing is done under the lock of the process. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "real.h"

/* If there are more contexts than this, the server is asked about the others. */
enum { MOST = 256 };

struct slot {
	uint64_t ino; /* 0: empty. Written last, cleared first */
	uint64_t cookie;
	uint64_t rdev;
	uint32_t generation;
};

static struct slot slots[MOST];
static uint32_t used;   /* slots from this number on are empty */
static uint32_t oldest; /* overwritten when all slots are used */

bool nv_context_of(int fd, const struct stat *st, struct nv_context *c) {
	uint32_t n = __atomic_load_n(&used, __ATOMIC_ACQUIRE), i;
	struct nv_identity id;
	struct stat own;
	if (n == 0)
		return false;
	if (!st) {
		if (NV_SYSCALL(SYS_fstat, fd, &own) != 0)
			return false;
		st = &own;
	}
	if (!S_ISSOCK(st->st_mode) && !S_ISFIFO(st->st_mode))
		return false;
	for (i = 0; i < n; i++) {
		struct slot *s = &slots[i];
		uint64_t ino = __atomic_load_n(&s->ino, __ATOMIC_ACQUIRE);
		if (ino == 0 || ino != st->st_ino)
			continue;
		c->id.ino = ino;
		c->id.cookie = __atomic_load_n(&s->cookie, __ATOMIC_RELAXED);
		c->rdev = (dev_t)__atomic_load_n(&s->rdev, __ATOMIC_RELAXED);
		c->generation = __atomic_load_n(&s->generation, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&s->ino, __ATOMIC_RELAXED) != ino)
			continue; /* another context took the slot meanwhile */
		if (nv_identify(fd, st, &id) && id.cookie == c->id.cookie)
			return true;
		/* The context was closed, and another socket has its inode number. */
		__atomic_compare_exchange_n(&s->ino, &ino, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	return false;
}

bool nv_is_channel(const struct nv_context *c) {
	enum { MISC = 10 }; /* of other devices than uverbs */
	return major(c->rdev) == MISC;
}

bool nv_is_mad(const struct nv_context *c) {
	enum { UVERBS = 231, FIRST_UVERBS = 192 }; /* umad and issm come before uverbs */
	return major(c->rdev) == UVERBS && minor(c->rdev) < FIRST_UVERBS;
}

uint32_t nv_mads;

void nv_context_add(const struct nv_context *c) {
	uint32_t n = __atomic_load_n(&used, __ATOMIC_RELAXED), i, empty = n;
	struct slot *s;
	if (nv_is_mad(c))
		__atomic_store_n(&nv_mads, 1, __ATOMIC_RELAXED);
	for (i = 0; i < n; i++) {
		uint64_t ino = __atomic_load_n(&slots[i].ino, __ATOMIC_RELAXED);
		if (ino == c->id.ino) {
			empty = i;
			break;
		}
		if (ino == 0)
			empty = i;
	}
	if (empty == MOST)
		empty = oldest++ % MOST;
	s = &slots[empty];
	__atomic_store_n(&s->ino, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&s->cookie, c->id.cookie, __ATOMIC_RELAXED);
	__atomic_store_n(&s->rdev, c->rdev, __ATOMIC_RELAXED);
	__atomic_store_n(&s->generation, c->generation, __ATOMIC_RELAXED);
	__atomic_store_n(&s->ino, c->id.ino, __ATOMIC_RELEASE);
	if (empty == n)
		__atomic_store_n(&used, n + 1, __ATOMIC_RELEASE);
}

/* Adds the server's answer about fd to the table. */
static int admit(struct nv_process *p, int fd, struct nv_context *c) {
	const struct nv_opened *o = (const struct nv_opened *)(p->in + sizeof(struct nv_header));
	if (p->in_length < sizeof(struct nv_header) + sizeof *o || !nv_identify(fd, NULL, &c->id) ||
	    c->id.ino != o->context)
		return EPROTO;
	c->generation = p->generation;
	c->rdev = makedev(o->rdev_major, o->rdev_minor);
	nv_context_add(c);
	return 0;
}

int nv_adopt(struct nv_process *p, int fd, struct nv_context *c) {
	int domain, error;
	socklen_t size = sizeof domain;
	bool known;
	if (p->last.generation && fd == p->last_fd && p->last.id.cookie && nv_cookie(fd) == p->last.id.cookie) {
		*c = p->last; /* the usual case, with one system call */
		return 0;
	}
	/* A context that a child of a fork has inherited works over the child's own connection: the server is
	 * asked about it. */
	known = nv_context_of(fd, NULL, c);
	if (known && ((nv_connected(p) && c->generation == p->generation) || (p->lost && !nv_is_channel(c)))) {
		if (!nv_is_channel(c)) {
			p->last = *c;
			p->last_fd = fd;
		}
		return 0;
	}
	if ((NV_REAL(getsockopt)(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) &&
	    fcntl(fd, F_GETPIPE_SZ) < 0)
		return ENOTTY;
	error = nv_connect(p);
	if (error)
		return known ? EIO : error;
	nv_begin(p, NV_ADOPT, 0);
	p->out_fds[p->out_count++] = fd;
	error = nv_ask(p);
	if (error)
		return known || error == EIO ? EIO : ENOTTY; /* the server says: not a context */
	nv_close_fds(p);
	return admit(p, fd, c);
}

int nv_open_device(uint32_t device, int flags) {
	struct nv_context c;
	struct nv_process *p;
	struct nv_entry entry;
	struct nv_open *o;
	int fd = -1, error;
	if (flags & O_DIRECTORY) {
		errno = ENOTDIR;
		return -1;
	}
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
		errno = EEXIST;
		return -1;
	}
	p = nv_enter(&entry);
	if (!p)
		return -1;
	error = nv_connect(p);
	/* Addresses may have come and gone since the last device was opened. A program whose addresses
	 * the server refuses gets a device all the same. */
	if (error == 0 && nv_tell_addresses(p) == EIO)
		error = EIO;
	if (error == 0) {
		nv_begin(p, device == NV_CHANNEL ? NV_OPEN_CHANNEL : device >= NV_MAD ? NV_OPEN_MAD : NV_OPEN, 0);
		if (device != NV_CHANNEL) {
			o = nv_room(p, sizeof *o);
			o->device = device >= NV_MAD ? device - NV_MAD : device;
		}
		error = nv_ask(p);
	}
	if (error == 0) {
		fd = nv_take_fd(p, 0);
		nv_close_fds(p);
		error = fd < 0 ? EPROTO : admit(p, fd, &c);
	}
	if (error == 0 && !(flags & O_CLOEXEC) && fcntl(fd, F_SETFD, 0) != 0)
		error = errno;
	if (error == 0 && (flags & O_NONBLOCK) && fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
		error = errno;
	if (error && fd >= 0)
		close(fd);
	else if (fd >= 0 && device < NV_MAD)
		nv_watch(fd);
	return nv_leave(p, &entry, error) == 0 ? fd : -1;
}
