/* One request and its answer over the connection. Each is one datagram, and can have
 * descriptors. */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "real.h"

void nv_begin(struct nv_process *p, uint16_t op, uint64_t context) {
	struct nv_header *h;
	p->out_length = 0;
	p->out_count = 0;
	p->lent_count = 0;
	p->lent_bytes = 0;
	h = nv_room(p, sizeof *h);
	h->op = op;
	h->context = context;
}

void *nv_room(struct nv_process *p, size_t bytes) {
	uint8_t *at = p->out + p->out_length;
	size_t padded = (bytes + 7) & ~(size_t)7;
	if (p->out_length > sizeof p->out || padded > sizeof p->out - p->out_length - p->lent_bytes) {
		p->out_length = sizeof p->out + 1;
		return NULL;
	}
	memset(at, 0, padded);
	p->out_length += padded;
	return at;
}

bool nv_lend(struct nv_process *p, uint64_t from, size_t bytes) {
	size_t padded = (bytes + 7) & ~(size_t)7;
	struct nv_lent *l = &p->lent[p->lent_count];
	if (p->lent_count == NV_MAX_LENT || p->out_length > sizeof p->out ||
	    padded > sizeof p->out - p->out_length - p->lent_bytes)
		return false;
	l->at = p->out_length;
	l->from = from;
	l->bytes = bytes;
	p->lent_count++;
	p->lent_bytes += padded;
	return true;
}

void nv_close_fds(struct nv_process *p) {
	int i;
	for (i = 0; i < p->in_count; i++)
		if (p->in_fds[i] >= 0)
			close(p->in_fds[i]);
	p->in_count = 0;
}

int nv_take_fd(struct nv_process *p, uint32_t n) {
	int fd = -1;
	if (n < (uint32_t)p->in_count) {
		fd = p->in_fds[n];
		p->in_fds[n] = -1;
	}
	return fd;
}

struct nv_reader nv_answer(const struct nv_process *p) {
	struct nv_reader r = {p->in + sizeof(struct nv_header), p->in_length - sizeof(struct nv_header)};
	return r;
}

const void *nv_next(struct nv_reader *r, size_t bytes) {
	const void *at = r->at;
	size_t padded = (bytes + 7) & ~(size_t)7;
	if (padded < bytes || padded > r->left)
		return NULL;
	r->at += padded;
	r->left -= padded;
	return at;
}

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int) * NV_MAX_FDS)];
};

static struct iovec piece(const void *at, size_t bytes) {
	struct iovec v;
	v.iov_base = (void *)(uintptr_t)at;
	v.iov_len = bytes;
	return v;
}

/* Stores in iov the pieces of the request: what is in out, what is lent, and padding. */
static size_t pieces(const struct nv_process *p, struct iovec *iov) {
	static const uint8_t zeros[8];
	size_t n = 0, at = 0;
	int i;
	for (i = 0; i < p->lent_count; i++) {
		const struct nv_lent *l = &p->lent[i];
		if (l->at > at)
			iov[n++] = piece(p->out + at, l->at - at);
		at = l->at;
		iov[n++] = piece((const void *)(uintptr_t)l->from, l->bytes);
		if (l->bytes & 7)
			iov[n++] = piece(zeros, 8 - (l->bytes & 7));
	}
	if (p->out_length > at)
		iov[n++] = piece(p->out + at, p->out_length - at);
	return n;
}

static int send_request(struct nv_process *p) {
	struct iovec iov[3 * NV_MAX_LENT + 1];
	struct msghdr m;
	union control control;
	ssize_t n;
	memset(&m, 0, sizeof m);
	memset(&control, 0, sizeof control);
	m.msg_iov = iov;
	m.msg_iovlen = pieces(p, iov);
	if (p->out_count > 0) {
		size_t bytes = sizeof(int) * (size_t)p->out_count;
		struct cmsghdr *c = &control.align;
		m.msg_control = control.room;
		m.msg_controllen = CMSG_SPACE(bytes);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(c), p->out_fds, bytes);
	}
	do
		n = NV_REAL(sendmsg)(p->fd, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? errno : 0;
}

static int receive_answer(struct nv_process *p) {
	struct iovec iov = {p->in, sizeof p->in};
	struct msghdr m;
	union control control;
	struct cmsghdr *c;
	ssize_t n;
	memset(&m, 0, sizeof m);
	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	m.msg_control = control.room;
	m.msg_controllen = sizeof control.room;
	p->in_count = 0;
	do
		n = NV_REAL(recvmsg)(p->fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		p->in_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(p->in_fds, CMSG_DATA(c), sizeof(int) * (size_t)p->in_count);
	}
	if (n == 0)
		return ECONNRESET;
	if (m.msg_flags & MSG_TRUNC)
		return EPROTO;
	p->in_length = (size_t)n;
	return m.msg_flags & MSG_CTRUNC ? EMFILE : 0; /* this process has reached its limit on descriptors */
}

int nv_ask(struct nv_process *p) {
	static int lost;
	struct nv_header *out = (struct nv_header *)p->out;
	const struct nv_header *in = (const struct nv_header *)p->in;
	int error;
	if (p->out_length > sizeof p->out)
		return E2BIG;
	out->length = (uint32_t)(p->out_length + p->lent_bytes);
	out->tag = ++p->tag;
	error = send_request(p);
	p->unsent = error == ETOOMANYREFS || error == EBADF || (error == EFAULT && p->lent_count > 0);
	if (p->unsent)
		return error; /* a descriptor or lent memory could not be sent; the connection is intact */
	if (error == 0)
		error = receive_answer(p);
	if (error == EMFILE) {
		nv_close_fds(p);
		return EMFILE;
	}
	if (error == 0 && (p->in_length < sizeof *in || in->length != p->in_length || in->tag != out->tag ||
	                   in->op != out->op || !(in->flags & NV_ANSWER) || in->error < 0))
		error = EPROTO;
	if (error) {
		nv_say(&lost, "the verbs server in %s is lost: %s", nv_dir(),
		       error == EAGAIN ? "no answer" : strerror(error));
		nv_close_fds(p);
		nv_give_up(p);
		return EIO;
	}
	if (in->error)
		nv_close_fds(p);
	return in->error;
}
