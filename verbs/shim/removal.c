/* The end of a device, as a program of rdma_cm reads it. The kernel then queues DEVICE_REMOVAL for each id
 * that is attached to the device, after which the program can still destroy its ids. A server that is asked
 * to end sends the events itself. One that is killed, or does not live until they are read, cannot: its end
 * of the channel's pipe is closed, and the program, which reads the end of file, gets them from here. So
 * answers of the server about ids are noted. poll wakes with POLLHUP. When all is read, reading fails with
 * EIO; the kernel would let the program wait for ever.
 *
 * A child of a fork has the ids of its parent. Each of them reads the events of a channel that both have. */
#include "shim.h"

#include <errno.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

/* The events, as librdmacm numbers them (rdma_cma.h). */
enum {
	ADDR_RESOLVED = 0,
	CONNECT_REQUEST = 4,
	DEVICE_REMOVAL = 11,
	MULTICAST_JOIN = 12,
	MULTICAST_ERROR = 13,
};

/* The sockets and pipes of a server that is killed are closed one after the other: that of a channel can be
 * the last. */
enum { PATIENCE = 1000 }; /* milliseconds */

/* If a program has more ids and memberships of groups than this, its oldest ids get no event. */
enum { MOST = 4096 };

struct id {
	uint64_t channel; /* st_ino of its pipe; 0: empty */
	uint64_t uid;     /* by which the program knows it; 0: not yet, so it gets no events */
	uint32_t number;
	uint32_t reported; /* events that the program has read */
	bool attached;     /* to a device */
	bool removed;      /* the program has read DEVICE_REMOVAL */

	/* It is an id's membership of a group, whose number is of another kind than those of ids. */
	bool member;
	uint32_t of; /* number of the id */
};

/* Guarded by the lock of the process. */
static struct id ids[MOST];
static uint32_t used;   /* ids from this index on are empty */
static uint32_t oldest; /* is overwritten when all are used */

union command {
	struct rdma_ucm_create_id create;
	struct rdma_ucm_destroy_id destroy;
	struct rdma_ucm_accept accept;
	struct rdma_ucm_migrate_id migrate;
	struct rdma_ucm_query query; /* and of a route */
	struct rdma_ucm_join_ip_mcast join_ip;
	struct rdma_ucm_join_mcast join;
	struct rdma_ucm_get_event get;
};

/* Splits a command. Fields that an older library leaves out are 0. */
static bool parse(const uint8_t *written, size_t bytes, struct rdma_ucm_cmd_hdr *h, union command *c) {
	if (bytes < sizeof *h)
		return false;
	memcpy(h, written, sizeof *h);
	bytes -= sizeof *h;
	memset(c, 0, sizeof *c);
	memcpy(c, written + sizeof *h, bytes < sizeof *c ? bytes : sizeof *c);
	return true;
}

static struct id *find_kind(uint64_t channel, uint32_t number, bool member) {
	uint32_t i;
	for (i = 0; i < used; i++)
		if (ids[i].channel == channel && ids[i].number == number && ids[i].member == member)
			return &ids[i];
	return NULL;
}

static struct id *find(uint64_t channel, uint32_t number) { return find_kind(channel, number, false); }

static struct id *find_uid(uint64_t channel, uint64_t uid) {
	uint32_t i;
	for (i = 0; i < used; i++)
		if (ids[i].channel == channel && ids[i].uid == uid && !ids[i].member)
			return &ids[i];
	return NULL;
}

static struct id *add_kind(uint64_t channel, uint32_t number, bool member) {
	struct id *id = find_kind(channel, number, member);
	uint32_t i;
	for (i = 0; !id && i < used; i++)
		if (ids[i].channel == 0)
			id = &ids[i];
	if (!id)
		id = used < MOST ? &ids[used++] : &ids[oldest++ % MOST];
	memset(id, 0, sizeof *id);
	id->channel = channel;
	id->number = number;
	id->member = member;
	return id;
}

static struct id *add(uint64_t channel, uint32_t number, uint64_t uid) {
	struct id *id = add_kind(channel, number, false);
	id->uid = uid;
	return id;
}

/* Moves an id and its memberships to another channel; 0: they have ended. */
static void move(struct id *id, uint64_t channel) {
	const uint64_t from = id->channel;
	uint32_t i;
	for (i = 0; i < used; i++)
		if (ids[i].channel == from && ids[i].member && ids[i].of == id->number)
			ids[i].channel = channel;
	id->channel = channel;
}

static void count_event(uint64_t channel, const struct rdma_ucm_event_resp *e) {
	const bool member = e->event == MULTICAST_JOIN || e->event == MULTICAST_ERROR;
	struct id *id = find_kind(channel, e->id, member); /* uid and number are those of the membership */
	if (id && member)
		id = find(channel, id->of); /* the event counts for the id, too */
	if (e->event == CONNECT_REQUEST) { /* uid is the listener's, and the number that of a new id */
		add(channel, e->id, 0)->attached = true;
		id = find_uid(channel, e->uid);
	}
	if (!id)
		return;
	id->reported++;
	if (e->event == ADDR_RESOLVED)
		id->attached = true;
	if (e->event == DEVICE_REMOVAL) {
		id->removed = true;
		nv_heard();
	}
}

/* Returns the bytes that the answer stores in the program, NULL if there are fewer. */
static const void *stored(const struct nv_process *p, size_t bytes) {
	struct nv_reader r = nv_answer(p);
	const uint64_t *count = nv_next(&r, sizeof *count);
	const struct nv_out *o = count && *count > 0 ? nv_next(&r, sizeof *o) : NULL;
	return o && o->length >= bytes ? nv_next(&r, o->length) : NULL;
}

static void note_join(const struct nv_process *p, uint64_t channel, uint32_t of) {
	const struct rdma_ucm_create_id_resp *made = stored(p, sizeof *made);
	if (made)
		add_kind(channel, made->id, true)->of = of;
}

/* Both answers about an id begin with the GUID of its device, 0 if it is not attached to one. */
static void note_query(const struct nv_process *p, struct id *id) {
	const uint64_t *guid = stored(p, sizeof *guid);
	if (id && guid && *guid != 0)
		id->attached = true;
}

void nv_removal_note(const struct nv_process *p, uint64_t channel, const uint8_t *written, size_t bytes) {
	struct rdma_ucm_cmd_hdr h;
	struct rdma_ucm_event_resp event;
	struct nv_identity before;
	union command c;
	const void *answer;
	struct id *id;
	if (!parse(written, bytes, &h, &c))
		return;
	switch (h.cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		if ((answer = stored(p, sizeof(struct rdma_ucm_create_id_resp))))
			add(channel, ((const struct rdma_ucm_create_id_resp *)answer)->id, c.create.uid);
		break;
	case RDMA_USER_CM_CMD_DESTROY_ID:
		if ((id = find(channel, c.destroy.id)))
			move(id, 0);
		break;
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
		note_join(p, channel, c.join_ip.id);
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		note_join(p, channel, c.join.id);
		break;
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
		if ((id = find_kind(channel, c.destroy.id, true)))
			id->channel = 0;
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		if ((id = find(channel, c.accept.id)) && c.accept.uid != 0)
			id->uid = c.accept.uid;
		break;
	case RDMA_USER_CM_CMD_MIGRATE_ID:
		if (nv_identify((int)c.migrate.fd, NULL, &before) && (id = find(before.ino, c.migrate.id)))
			move(id, channel);
		break;
	case RDMA_USER_CM_CMD_QUERY:
		if (c.query.option == RDMA_USER_CM_QUERY_ADDR)
			note_query(p, find(channel, c.query.id));
		break;
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
		note_query(p, find(channel, c.query.id));
		break;
	case RDMA_USER_CM_CMD_GET_EVENT:
		if ((answer = stored(p, offsetof(struct rdma_ucm_event_resp, param)))) {
			memset(&event, 0, sizeof event);
			memcpy(&event, answer, offsetof(struct rdma_ucm_event_resp, param));
			count_event(channel, &event);
		}
		break;
	}
}

/* Reports whether nobody has the other end of a channel's pipe any more. */
static bool ended(int fd) {
	struct pollfd at = {fd, 0, 0};
	int n;
	do
		n = poll(&at, 1, PATIENCE);
	while (n < 0 && errno == EINTR);
	return n > 0 && at.revents & POLLHUP;
}

/* Stores the answer to a command that offers room for so many bytes and needs least. */
static int answer(const struct nv_process *p, uint64_t to, void *from, size_t bytes, size_t room,
                  size_t least) {
	struct iovec here = {from, room < bytes ? room : bytes}, there = {(void *)(uintptr_t)to, here.iov_len};
	return room < least ? ENOSPC : nv_store(p, &here, &there, 1);
}

static int next_event(const struct nv_process *p, uint64_t channel, uint64_t to, size_t room) {
	struct rdma_ucm_event_resp e;
	uint32_t i;
	int error;
	for (i = 0; i < used; i++) {
		struct id *id = &ids[i];
		if (id->channel != channel || !id->attached || id->removed || id->uid == 0)
			continue;
		memset(&e, 0, sizeof e);
		e.uid = id->uid;
		e.id = id->number;
		e.event = DEVICE_REMOVAL;
		error = answer(p, to, &e, sizeof e, room, offsetof(struct rdma_ucm_event_resp, reserved));
		if (error == 0)
			count_event(channel, &e);
		return error;
	}
	return EIO;
}

int nv_removal(const struct nv_process *p, int fd, uint64_t channel, const uint8_t *written, size_t bytes) {
	struct rdma_ucm_destroy_id_resp destroyed;
	struct rdma_ucm_cmd_hdr h;
	union command c;
	struct id *id;
	int error;
	if (!parse(written, bytes, &h, &c))
		return EIO;
	if (h.cmd == RDMA_USER_CM_CMD_GET_EVENT)
		return ended(fd) ? next_event(p, channel, c.get.response, h.out) : EIO;
	id = h.cmd == RDMA_USER_CM_CMD_DESTROY_ID ? find(channel, c.destroy.id) : NULL;
	if (!id || !ended(fd))
		return EIO;
	destroyed.events_reported = id->reported;
	error = answer(p, c.destroy.response, &destroyed, sizeof destroyed, h.out, sizeof destroyed);
	if (error == 0)
		move(id, 0);
	return error;
}
