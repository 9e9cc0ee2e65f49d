/* One write to a channel, by the protocol in wire.h. Only the server knows what the bytes mean,
 * with one exception: GET_EVENT takes a byte from the channel first. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "real.h"

/* How many answers with needs are accepted, other than those that wait for a byte. */
enum { ROUNDS = 4 };

/* The most bytes that a need may ask for. */
enum { LONGEST = 4096 };

struct call {
	struct nv_process *p;
	struct nv_entry entry;
	struct nv_context channel;
	int fd;
	uint64_t count;
	uint32_t bytes;
	uint8_t data[NV_MAX_WRITE];
	uint16_t anew; /* need of the last answer that has the request made anew; 0: none */
};

static struct nv_got *add_result(struct call *c, uint16_t kind, uint32_t length) {
	struct nv_write *q = (struct nv_write *)(c->p->out + sizeof(struct nv_header));
	struct nv_got *g = nv_room(c->p, sizeof *g);
	if (!g || !nv_room(c->p, length))
		return NULL;
	g->kind = kind;
	g->length = length;
	q->results++;
	return g;
}

static void request(struct call *c) {
	struct nv_write *q;
	nv_begin(c->p, NV_WRITE, c->channel.id.ino);
	q = nv_room(c->p, sizeof *q); /* there is room for this structure and the bytes */
	q->count = c->count;
	q->bytes = c->bytes;
	memcpy(nv_room(c->p, c->bytes), c->data, c->bytes);
}

static int satisfy_one(struct call *c, const struct nv_need *need, const void *bytes) {
	bool reads = need->kind == NV_NEED_BYTES, routes = need->kind == NV_NEED_ROUTE;
	struct nv_process *p = c->p;
	struct nv_got *g;
	int fd = (int)need->addr;
	if (need->kind == NV_NEED_TOKEN || need->kind == NV_NEED_ADDRESSES) {
		c->anew = need->kind;
		return 0;
	}
	if (reads && need->length > LONGEST)
		return EPROTO;
	g = add_result(c, need->kind, reads ? (uint32_t)need->length : routes ? NV_ADDRESS : 0);
	if (!g)
		return EPROTO;
	if (reads)
		g->error = nv_fetch(p, g + 1, need->addr, need->length);
	else if (routes)
		g->error = nv_find_route(bytes, (uint8_t *)(g + 1));
	else if (need->kind != NV_NEED_FD || p->out_count == NV_MAX_FDS)
		return EPROTO;
	else if (fcntl(fd, F_GETFD) < 0)
		g->error = errno;
	else
		p->out_fds[p->out_count++] = fd;
	return 0;
}

/* Satisfies the needs of the answer, and appends the results to the request. */
static int satisfy(struct call *c) {
	struct nv_reader r = nv_answer(c->p);
	const uint64_t *count = nv_next(&r, sizeof *count);
	uint64_t n;
	int error = 0;
	if (!count)
		return EPROTO;
	for (n = *count; n > 0 && error == 0; n--) {
		const struct nv_need *need = nv_next(&r, sizeof *need);
		size_t wants = need && need->kind == NV_NEED_ROUTE ? sizeof(struct nv_route) : 0;
		const void *bytes = need ? nv_next(&r, wants) : NULL;
		error = bytes ? satisfy_one(c, need, bytes) : EPROTO;
	}
	return error;
}

/* Takes a byte from the channel without the lock, because the program may have to wait for it,
 * and can be interrupted meanwhile, as in the kernel. Then makes the request anew. */
static int take_token(struct call *c) {
	struct nv_got *g;
	uint8_t token;
	ssize_t n;
	int error;
	nv_leave(c->p, &c->entry, 0);
	n = NV_REAL(read)(c->fd, &token, sizeof token);
	error = n < 0 ? errno : n == 0 ? EIO : 0; /* the end of file: the server has gone */
	c->p = nv_enter(&c->entry);
	if (!c->p)
		return errno;
	if (!nv_connected(c->p) || c->channel.generation != c->p->generation)
		return EIO;
	if (error == EINTR || error == EAGAIN || error == EIO)
		return error;
	request(c);
	g = add_result(c, NV_NEED_TOKEN, 0);
	if (!g)
		return EPROTO;
	g->error = error;
	return 0;
}

/* Whether the program asks for an event. The server would want the byte that each event has in
 * the channel, so it is taken at once: an answer is saved, and all of them where a program polls
 * and there is no event. Also, a thread that waits must be in the kernel soon: rping's other
 * thread closes the channel, and ends the program before the first one could see that. */
static bool wants_event(const struct call *c) {
	struct rdma_ucm_cmd_hdr h;
	if (c->count != sizeof h + sizeof(struct rdma_ucm_get_event))
		return false;
	memcpy(&h, c->data, sizeof h);
	/* If the sizes are wrong, the server says so, and the event stays. */
	return !nv_is_mad(&c->channel) && h.cmd == RDMA_USER_CM_CMD_GET_EVENT && h.in == sizeof(struct rdma_ucm_get_event) &&
	       h.out >= offsetof(struct rdma_ucm_event_resp, reserved);
}

static int tell_addresses(struct call *c) {
	int error = nv_tell_addresses(c->p);
	if (error == EIO)
		return EIO;
	request(c);
	return add_result(c, NV_NEED_ADDRESSES, 0) ? 0 : EPROTO;
}

static int store(const struct nv_process *p, uint64_t to, const void *from, size_t bytes) {
	struct iovec here = {(void *)(uintptr_t)from, bytes}, there = {(void *)(uintptr_t)to, bytes};
	return nv_store(p, &here, &there, 1);
}

int nv_write_answer(struct nv_process *p, uint64_t *bytes_out) {
	struct nv_reader r = nv_answer(p);
	const uint64_t *count = nv_next(&r, sizeof *count);
	uint64_t n;
	if (!count)
		return EPROTO;
	for (n = *count; n > 0; n--) {
		const struct nv_out *o = nv_next(&r, sizeof *o);
		const void *bytes = o ? nv_next(&r, o->length) : NULL;
		if (!bytes || o->kind != NV_OUT_BYTES)
			return EPROTO;
		if (o->length && store(p, o->value, bytes, o->length) != 0)
			return EFAULT;
		*bytes_out += o->length;
	}
	return 0;
}

static int converse(struct call *c) {
	int round = 0, error = 0;
	uint64_t stored = 0;
	bool again = true;
	if (wants_event(c))
		error = take_token(c);
	else
		request(c);
	while (error == 0 && again) {
		error = nv_ask(c->p);
		if (error)
			break;
		again = ((const struct nv_header *)c->p->in)->flags & NV_AGAIN;
		c->anew = 0;
		error = again ? satisfy(c) : nv_write_answer(c->p, &stored);
		nv_close_fds(c->p);
		if (error == 0 && c->anew == NV_NEED_TOKEN)
			error = take_token(c);
		else if (error == 0 && again && ++round > ROUNDS)
			error = EPROTO;
		else if (error == 0 && c->anew)
			error = tell_addresses(c);
	}
	if (c->p)
		nv_close_fds(c->p);
	return error;
}

/* Notes what the server has answered, or answers in its place if it has gone. */
static int note(struct call *c, const void *data, int error) {
	if (error == 0)
		nv_removal_note(c->p, c->channel.id.ino, c->data, c->bytes);
	else if (error == EIO && nv_fetch(c->p, c->data, (uint64_t)(uintptr_t)data, c->bytes) == 0)
		error = nv_removal(c->p, c->fd, c->channel.id.ino, c->data, c->bytes);
	return error;
}

int nv_write(int fd, const void *data, size_t count) {
	struct call c;
	int error;
	c.p = nv_enter(&c.entry);
	if (!c.p)
		return EBADF;
	memset(&c.channel, 0, sizeof c.channel);
	c.fd = fd;
	c.count = count;
	c.bytes = count < NV_MAX_WRITE ? (uint32_t)count : NV_MAX_WRITE;
	error = nv_adopt(c.p, fd, &c.channel);
	if (error == ENOTTY || (error == 0 && !nv_is_channel(&c.channel) && !nv_is_mad(&c.channel)))
		error = EBADF; /* the kernel's result */
	if (error == 0 && (!nv_connected(c.p) || c.channel.generation != c.p->generation))
		error = EIO; /* the connection over which it was opened has ended */
	if (error == 0)
		error = nv_fetch(c.p, c.data, (uint64_t)(uintptr_t)data, c.bytes);
	if (error == 0)
		error = converse(&c);
	if (c.p && nv_is_channel(&c.channel))
		error = note(&c, data, error);
	if (c.p)
		nv_leave(c.p, &c.entry, error);
	return error;
}
