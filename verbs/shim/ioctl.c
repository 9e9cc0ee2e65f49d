/* One ioctl, by the protocol in wire.h. Only the server knows what the attributes mean: they
 * are sent with everything to which they may point, and the answer says what to write where. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

/* How many answers with needs are accepted before the last answer. */
enum { ROUNDS = 4 };

/* struct ib_uverbs_ioctl_hdr without its flexible array. */
struct header {
	uint16_t length, object, method, num_attrs;
	uint64_t reserved;
	uint32_t driver, reserved_too;
};
typedef char same_header[sizeof(struct header) == sizeof(struct ib_uverbs_ioctl_hdr) ? 1 : -1];

/* The kernel's limit for the bytes of the header and attributes. */
enum { LONGEST = 4096, MOST = (LONGEST - sizeof(struct header)) / sizeof(struct ib_uverbs_attr) };

/* How many attributes are read together with the header: more than most ioctls have. */
enum { USUAL = 16 };

struct call {
	struct nv_process *p;
	uint64_t arg; /* the address of the program's header */
	struct header hdr;
	struct ib_uverbs_attr attrs[MOST];
};

/* Copies the header and the attributes. They are read only once: the copy is sent, and later
 * decisions use the copy. */
static int fetch(struct call *c) {
	size_t bytes, got;
	if (nv_fetch_some(c->p, &c->hdr, c->arg, sizeof c->hdr, sizeof c->hdr + USUAL * sizeof *c->attrs,
	                  &got) != 0)
		return EFAULT;
	got -= sizeof c->hdr;
	bytes = c->hdr.num_attrs * sizeof *c->attrs;
	if (c->hdr.num_attrs > MOST || c->hdr.length != sizeof c->hdr + bytes)
		return EINVAL;
	return bytes > got ? nv_fetch(c->p, c->attrs, c->arg + sizeof c->hdr, bytes) : 0;
}

/* Makes the request. If lend, the bytes to which attributes point are sent from where they are. That takes no
 * call to read them, but does not show which of them cannot be read. */
static int request(struct call *c, uint64_t context, bool lend) {
	struct nv_process *p = c->p;
	size_t bytes = c->hdr.num_attrs * sizeof *c->attrs;
	struct nv_ioctl *q;
	uint8_t *at;
	unsigned i;
	nv_begin(p, NV_IOCTL, context);
	q = nv_room(p, sizeof *q); /* there is room for this structure, the header and the attributes */
	q->bytes = c->hdr.length;
	memcpy(nv_room(p, sizeof c->hdr), &c->hdr, sizeof c->hdr);
	memcpy(nv_room(p, bytes), c->attrs, bytes);
	for (i = 0; i < c->hdr.num_attrs; i++) {
		if (c->attrs[i].len <= 8 || (lend && nv_lend(p, c->attrs[i].data, c->attrs[i].len)))
			continue;
		at = nv_room(p, c->attrs[i].len);
		if (!at)
			return E2BIG;
		if (nv_fetch(p, at, c->attrs[i].data, c->attrs[i].len) == 0)
			continue;
		if (i >= 64)
			return EFAULT; /* `unreadable` has no bit for this attribute */
		memset(at, 0, c->attrs[i].len);
		q->unreadable |= (uint64_t)1 << i;
	}
	return 0;
}

/* Satisfies the needs of the answer, and appends the results to the request. */
static int satisfy(struct call *c) {
	struct nv_process *p = c->p;
	struct nv_ioctl *q = (struct nv_ioctl *)(p->out + sizeof(struct nv_header));
	struct nv_reader r = nv_answer(p);
	const uint64_t *count = nv_next(&r, sizeof *count);
	uint32_t memories = 0;
	uint64_t n;
	bool heap;
	if (!count)
		return EPROTO;
	for (n = *count; n > 0; n--) {
		const struct nv_need *need = nv_next(&r, sizeof *need);
		struct nv_result *result = nv_room(p, sizeof *result);
		int fd;
		if (!need || !result)
			return EPROTO;
		result->attr = need->attr;
		result->kind = need->kind;
		result->addr = need->addr;
		switch (need->kind) {
		case NV_NEED_FD:
		case NV_NEED_FD_NUMBER:
			if ((need->kind == NV_NEED_FD && need->attr >= c->hdr.num_attrs) || p->out_count == NV_MAX_FDS)
				return EPROTO;
			fd = (int)(need->kind == NV_NEED_FD ? c->attrs[need->attr].data : need->addr);
			if (fcntl(fd, F_GETFD) < 0)
				result->error = errno;
			else
				p->out_fds[p->out_count++] = fd;
			break;
		case NV_NEED_REMAP:
		case NV_NEED_TRY_REMAP:
			fd = nv_take_fd(p, memories++);
			if (fd < 0)
				return EPROTO;
			heap = false;
			result->error = nv_remap(p, need->addr, need->length, fd, need->offset,
			                         need->kind == NV_NEED_TRY_REMAP, &heap);
			result->attr = heap ? NV_HEAP : 0;
			nv_not_late(p, need->addr, need->length);
			close(fd);
			break;
		default:
			return EPROTO;
		}
		q->results++;
	}
	return 0;
}

/* The writes to the program's memory that are pending. */
struct writes {
	struct iovec here[32], there[32];
	int count;
};

static int flush(const struct call *c, struct writes *w) {
	int error = w->count ? nv_store(c->p, w->here, w->there, w->count) : 0;
	w->count = 0;
	return error;
}

static int store(const struct call *c, struct writes *w, uint64_t to, const void *from, size_t bytes) {
	int error = w->count == sizeof w->here / sizeof *w->here ? flush(c, w) : 0;
	w->here[w->count].iov_base = (void *)(uintptr_t)from;
	w->there[w->count].iov_base = (void *)(uintptr_t)to;
	w->here[w->count].iov_len = w->there[w->count].iov_len = bytes;
	w->count++;
	return error;
}

static int store_attr(const struct call *c, struct writes *w, unsigned i, size_t offset, const void *from,
                      size_t bytes) {
	return store(c, w, c->arg + sizeof c->hdr + i * sizeof *c->attrs + offset, from, bytes);
}

/* Performs one nv_out. `fds` are the numbers that the program's new descriptors have. The bytes to write stay
 * where they are until the writes are flushed. */
static int apply(struct call *c, struct writes *w, const struct nv_out *o, const void *bytes, const int *fds,
                 int count) {
	struct ib_uverbs_attr *a = &c->attrs[o->attr];
	uint64_t which = o->kind == NV_OUT_FD_INSIDE ? o->value >> 32 : o->value;
	uint32_t inside = (uint32_t)o->value;
	if ((o->kind == NV_OUT_FD || o->kind == NV_OUT_FD_INSIDE) && which >= (uint64_t)count)
		return EPROTO;
	switch (o->kind) {
	case NV_OUT_BYTES:
		if (o->length > a->len)
			return EPROTO;
		a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
		if (o->length && store(c, w, a->data, bytes, o->length) != 0)
			return EFAULT;
		return store_attr(c, w, o->attr, offsetof(struct ib_uverbs_attr, flags), &a->flags, sizeof a->flags);
	case NV_OUT_FD:
		a->data = (uint64_t)fds[which];
		return store_attr(c, w, o->attr, offsetof(struct ib_uverbs_attr, data), &a->data, sizeof a->data);
	case NV_OUT_VALUE:
		return store_attr(c, w, o->attr, offsetof(struct ib_uverbs_attr, data), &o->value, sizeof o->value);
	case NV_OUT_FD_INSIDE:
		if (a->len < sizeof *fds || inside > a->len - sizeof *fds)
			return EPROTO;
		return store(c, w, a->data + inside, &fds[which], sizeof *fds);
	}
	return EPROTO;
}

/* Notes the descriptors of an answer that the program gets: they end with the server. */
static void note_ends(const struct call *c) {
	int i;
	for (i = 0; i < c->p->in_count; i++)
		nv_final_add(c->p, c->p->in_fds[i], c->hdr.object == UVERBS_OBJECT_ASYNC_EVENT);
}

/* Writes the answer to the program's memory. The program gets the descriptors only if the
 * whole answer could be written. */
static int answer(struct call *c) {
	struct nv_process *p = c->p;
	struct nv_reader r = nv_answer(p);
	const uint64_t *count = nv_next(&r, sizeof *count);
	struct writes w;
	uint64_t n;
	int error;
	if (!count)
		return EPROTO;
	w.count = 0;
	for (n = *count; n > 0; n--) {
		const struct nv_out *o = nv_next(&r, sizeof *o);
		const void *bytes = o ? nv_next(&r, o->length) : NULL;
		if (bytes && o->kind == NV_OUT_BACK && o->length == sizeof(uint64_t)) {
			nv_back_unpinned(c->p, o->value, *(const uint64_t *)bytes);
			continue;
		}
		if (!bytes || o->attr >= c->hdr.num_attrs)
			return EPROTO;
		error = apply(c, &w, o, bytes, p->in_fds, p->in_count);
		if (error)
			return error;
	}
	if (flush(c, &w) != 0)
		return EFAULT;
	note_ends(c);
	p->in_count = 0;
	return 0;
}

/* Writes the answer of a firmware command that failed: the program gets the status in it and the errno. */
static int failed(struct call *c, int error) {
	int unwritten = answer(c);
	return unwritten ? unwritten : error;
}

static int converse(struct call *c, uint64_t context) {
	const struct nv_header *in = (const struct nv_header *)c->p->in;
	int round, error = fetch(c);
	if (error == 0)
		error = request(c, context, true);
	for (round = 0; error == 0 && round <= ROUNDS; round++) {
		error = nv_ask(c->p);
		if (error == EFAULT && c->p->unsent && round == 0) {
			error = request(c, context, false);
			if (error == 0)
				error = nv_ask(c->p);
		}
		if (error == 0)
			error = in->flags & NV_AGAIN ? satisfy(c) : answer(c);
		else if (error == in->error && in->flags & NV_FAILED)
			error = failed(c, error);
		nv_close_fds(c->p);
		if (error || !(in->flags & NV_AGAIN))
			return error;
	}
	return error ? error : EPROTO;
}

int nv_ioctl(int fd, uint64_t arg) {
	struct nv_context context;
	struct nv_entry entry;
	struct call c;
	int error;
	struct nv_process *p = nv_enter(&entry);
	if (!p)
		return nv_context_of(fd, NULL, &context) ? EIO : ENOTTY;
	c.p = p;
	c.arg = arg;
	error = nv_adopt(p, fd, &context);
	if (error == 0 && (nv_is_channel(&context) || nv_is_mad(&context)))
		error = ENOTTY;
	if (error == 0 && (!nv_connected(p) || context.generation != p->generation))
		error = EIO; /* the connection has ended over which the context was opened */
	if (error == 0)
		error = converse(&c, context.id.ino);
	nv_leave(p, &entry, error);
	return error;
}
