/* Files of management datagrams: ioctl, read and write, by the protocol in wire.h. Only the server knows
 * what the bytes mean. */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "real.h"

/* The shortest header of a datagram (struct ib_user_mad_hdr_old). */
enum { LEAST = 56 };

/* Sends a request about fd, and writes the answer to the program's memory. Returns 0, ENOTTY if fd is no
 * file of MADs, or another errno. Stores in *bytes how many were written. */
static int ask(int fd, uint16_t op, struct nv_mad *m, uint64_t *bytes) {
	struct nv_context context;
	struct nv_entry entry;
	const struct nv_header *in;
	struct nv_mad *out;
	int error;
	struct nv_process *p = nv_enter(&entry);
	if (!p)
		return nv_context_of(fd, NULL, &context) ? EIO : ENOTTY;
	in = (const struct nv_header *)p->in;
	error = nv_adopt(p, fd, &context);
	if (error == 0 && !nv_is_mad(&context))
		error = ENOTTY;
	if (error == 0 && (!nv_connected(p) || context.generation != p->generation))
		error = EIO; /* the connection over which it was opened has ended */
	if (error == 0) {
		if (_IOC_DIR(m->request) & _IOC_WRITE && _IOC_SIZE(m->request) <= sizeof m->bytes &&
		    nv_fetch(p, m->bytes, m->arg, _IOC_SIZE(m->request)) != 0) {
			memset(m->bytes, 0, sizeof m->bytes);
			m->unreadable = 1;
		}
		nv_begin(p, op, context.id.ino);
		out = nv_room(p, sizeof *out);
		*out = *m;
		error = nv_ask(p);
		if (error == 0)
			error = nv_write_answer(p, bytes);
		else if (error == in->error && in->flags & NV_FAILED && nv_write_answer(p, bytes) != 0)
			error = EFAULT;
		nv_close_fds(p);
	}
	nv_leave(p, &entry, error);
	return error;
}

bool nv_mad_ioctl(int *result, int fd, unsigned long request, uint64_t arg) {
	struct nv_mad m = {.arg = arg, .request = (uint32_t)request};
	uint64_t bytes = 0;
	int error = ask(fd, NV_MAD_IOCTL, &m, &bytes), before = errno;
	if (error == ENOTTY)
		return false; /* the kernel's result is the same */
	errno = error ? error : before;
	*result = error ? -1 : 0;
	return true;
}

static bool is_mad(int fd) {
	struct nv_context c;
	int error = errno;
	bool is = nv_context_of(fd, NULL, &c) && nv_is_mad(&c);
	errno = error;
	return is;
}

/* The byte is taken without the lock, because the program may have to wait for it. */
bool nv_mad_read(ssize_t *result, int fd, void *data, size_t count) {
	struct nv_mad m = {.arg = (uint64_t)(uintptr_t)data, .count = count};
	uint64_t bytes;
	uint8_t token;
	int error;
	if (!is_mad(fd))
		return false;
	*result = -1;
	if (count < LEAST) {
		errno = EINVAL;
		return true;
	}
	do {
		ssize_t n = NV_REAL(read)(fd, &token, sizeof token);
		if (n <= 0) {
			errno = n < 0 ? errno : EIO; /* the end of file: the server has gone */
			return true;
		}
		bytes = 0;
		error = ask(fd, NV_MAD_READ, &m, &bytes);
	} while (error == EAGAIN);
	if (error)
		errno = error;
	else
		*result = (ssize_t)bytes;
	return true;
}

bool nv_mad_write(ssize_t *result, int fd, const void *data, size_t count) {
	int error;
	if (!is_mad(fd))
		return false;
	error = nv_write(fd, data, count);
	if (error)
		errno = error;
	*result = error ? -1 : (ssize_t)count;
	return true;
}
