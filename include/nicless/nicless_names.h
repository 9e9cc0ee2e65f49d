/*
 * Connects queue pairs by a name, in one call at each end. A program listens under a
 * name, and others dial it, in C or in Go (Context.ListenName, Context.DialName), on the
 * same engine or on those to which pools and UCX lead, and over RoCE. These are dialled, as in Go:
 *
 *   NAME           the one program that announces it, to this user or to all
 *   NAME@ENGINE    on the engine with that number, 16 hexadecimal digits
 *   NAME@ADDRESS   on the engine at that IP address, over RoCE: a name for all
 *
 *   one:    nicless_listen_name(&c, "db", 1);
 *           nicless_accept_name(&c, "db", &qp, &offer, 5000, &peer);
 *   other:  nicless_dial_name(&c, "db", &qp, &offer, 5000, &peer);
 *
 * When both calls have returned 0, both queue pairs can send. peer has the memory that the
 * other end offers. These functions wait, up to a number of milliseconds, and look for
 * messages each millisecond. A client listens under one name at a time. Errors are those of
 * nicless_client.h, and -ETIMEDOUT, -ENOENT (nobody announces the name), -ECONNREFUSED.
 *
 * internal/rendezvous has the forms of the messages. Host code only.
 */
#ifndef NICLESS_NAMES_H
#define NICLESS_NAMES_H

#include "nicless_verbs.h"

#include <arpa/inet.h>

enum {
	NICLESS_OP_ADDRESS = 33,
	NICLESS_OP_SET_PEER = 34,
	NICLESS_OP_NEXT_ANNOUNCEMENT = 36,
	NICLESS_OP_ANNOUNCE_TO = 37,
	NICLESS_OP_OPEN_BOX = 42,
	NICLESS_OP_SEND_MESSAGE = 43,
	NICLESS_OP_NEXT_MESSAGE = 44,
	NICLESS_MINOR_BOX = 10,
	NICLESS_MAX_NAME = 63,
	NICLESS_MAX_MESSAGE_VALUE = 184,
	NICLESS_PEER_PLACE = 32, /* bytes of a NICLESS_OP_SET_PEER */
	NICLESS_RESEND = 100, /* milliseconds */
	NICLESS_TURN = 128    /* messages taken before the time is looked at: as many as wait in a box */
};

enum { NICLESS_DIAL = 1, NICLESS_HOLD, NICLESS_ACCEPT, NICLESS_REJECT, NICLESS_READY, NICLESS_CANCEL };

struct nicless_box_message { /* the value follows */
	uint64_t device, number;
	uint8_t gid[16];
};

struct nicless_announcement_place {
	uint64_t device;
	uint32_t client;
	uint8_t pad[4];
};

NICLESS_ASSERT(box_message_size, sizeof(struct nicless_box_message) == 32);
NICLESS_ASSERT(announcement_place_size, sizeof(struct nicless_announcement_place) == 16);

/* Memory that one end offers the other, and what it knows of the other's queue pair. */
struct nicless_peer {
	uint64_t device; /* the engine of the peer; set by dial and accept */
	uint32_t qpn, psn;
	uint32_t type;   /* NICLESS_RC or NICLESS_UC */
	uint64_t addr, length;
	uint32_t rkey;
	char name[32];   /* of the memory; empty: none is offered */
};

/* A message that has come, or that is to be sent. */
struct nicless_said {
	struct nicless_box_message at; /* from whom, or to whom */
	uint8_t kind;
	uint64_t id;
	char name[NICLESS_MAX_NAME + 1]; /* of a NICLESS_DIAL */
	uint8_t body[NICLESS_MAX_MESSAGE_VALUE];
	size_t size;                     /* of the body */
};

/* Sends a request whose answer is at most `most` bytes long. */
static inline int nicless_ask_some(struct nicless_client *c, uint16_t op, const void *request, size_t size,
                                   uint8_t *answer, size_t most, size_t *answer_size) {
	uint8_t in[NICLESS_MAX_MESSAGE];
	int fds[2] = {-1, -1}, error;
	size_t got = 0;
	*answer_size = 0;
	if (c->fd < 0)
		return nicless_fail(c, -ENOTCONN, "request %u on a client that is not connected", op);
	if ((error = nicless_send(c, op, request, size)) != 0)
		return error;
	error = nicless_receive(c, in, &got, fds);
	nicless_close_fds(fds);
	if (error == 0)
		error = nicless_judge(c, op, in, got, got - NICLESS_HEADER);
	if (error)
		return error;
	got -= NICLESS_HEADER;
	if (got > most)
		return nicless_fail(c, -EPROTO, "answer of %zu bytes to request %u; at most %zu are possible", got, op, most);
	memcpy(answer, in + NICLESS_HEADER, got);
	*answer_size = got;
	return 0;
}

static inline uint64_t nicless_milliseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline void nicless_nap(void) {
	struct timespec t = {0, 1000000};
	nanosleep(&t, 0);
}

/* Opens the client's box, and returns its number. */
static inline int nicless_box_open(struct nicless_client *c, uint64_t *number) {
	if (c->device.minor < NICLESS_MINOR_BOX)
		return nicless_fail(c, -EOPNOTSUPP, "the engine's protocol is %u.%u; connections by names are since %u.%u",
		                    c->device.major, c->device.minor, NICLESS_MAJOR, NICLESS_MINOR_BOX);
	return nicless_ask(c, NICLESS_OP_OPEN_BOX, 0, 0, number, sizeof *number);
}

static inline int nicless_name_check(struct nicless_client *c, const char *name) {
	size_t n = strlen(name);
	if (n < 1 || n > NICLESS_MAX_NAME)
		return nicless_fail(c, -EINVAL, "name of %zu bytes; 1 to %d are possible", n, NICLESS_MAX_NAME);
	if (strpbrk(name, "@ "))
		return nicless_fail(c, -EINVAL, "name \"%s\" has @ or a space", name);
	return 0;
}

static inline int nicless_say(struct nicless_client *c, const struct nicless_said *m) {
	uint8_t out[sizeof m->at + NICLESS_MAX_MESSAGE_VALUE];
	size_t n = strlen(m->name), at = sizeof m->at;
	memcpy(out, &m->at, sizeof m->at);
	out[at++] = (uint8_t)n;
	memcpy(out + at, m->name, n);
	at += n;
	out[at++] = m->kind;
	memcpy(out + at, &m->id, sizeof m->id);
	at += sizeof m->id;
	memcpy(out + at, m->body, m->size);
	return nicless_ask(c, NICLESS_OP_SEND_MESSAGE, out, at + m->size, 0, 0);
}

/* Takes the next message. m->at.number is 0 if there is none, and m->kind if it has no form. */
static inline int nicless_hear(struct nicless_client *c, struct nicless_said *m) {
	uint8_t in[sizeof m->at + NICLESS_MAX_MESSAGE_VALUE];
	size_t size, n;
	int error;
	memset(m, 0, sizeof *m);
	if ((error = nicless_ask_some(c, NICLESS_OP_NEXT_MESSAGE, 0, 0, in, sizeof in, &size)) != 0)
		return error;
	if (size < sizeof m->at)
		return nicless_fail(c, -EPROTO, "message of %zu bytes from the engine", size);
	memcpy(&m->at, in, sizeof m->at);
	size -= sizeof m->at;
	n = size ? in[sizeof m->at] : 0;
	if (m->at.number == 0 || size < 1 + n + 1 + 8 || n > NICLESS_MAX_NAME)
		return 0;
	memcpy(m->name, in + sizeof m->at + 1, n);
	memcpy(&m->id, in + sizeof m->at + 1 + n + 1, 8);
	m->size = size - (1 + n + 1 + 8);
	memcpy(m->body, in + sizeof in - NICLESS_MAX_MESSAGE_VALUE + 1 + n + 1 + 8, m->size);
	n = in[sizeof m->at + 1 + n];
	if (n >= NICLESS_DIAL && n <= NICLESS_CANCEL && (n == NICLESS_DIAL) == (m->name[0] != 0))
		m->kind = (uint8_t)n;
	return 0;
}

/* Puts the Descriptor (version 1) of q, with the memory that the program offers, into m. */
static inline void nicless_describe(const struct nicless_client *c, const struct nicless_qp *q,
                                    const struct nicless_peer *offer, struct nicless_said *m) {
	uint8_t *b = m->body;
	uint32_t type = q->type, length = offer ? (uint32_t)strnlen(offer->name, sizeof offer->name - 1) : 0;
	memset(b, 0, 28);
	b[0] = 1;
	b[2] = length != 0;
	memcpy(b + 4, &q->qpn, 4); /* the PSN is 0, and there is no queue key */
	memcpy(b + 12, &c->device.guid, 8);
	memcpy(b + 24, &type, 4);
	m->size = 28;
	if (length == 0)
		return;
	memcpy(b + 28, &offer->addr, 8);
	memcpy(b + 36, &offer->length, 8);
	memcpy(b + 44, &offer->rkey, 4);
	b[48] = (uint8_t)length;
	memcpy(b + 49, offer->name, length);
	m->size = 49 + length;
}

/*
 * Reads a Descriptor, and its first piece of memory. The engine is the one from which the message
 * came. Returns 0 if it is none, or of another type than q.
 */
static inline int nicless_described(const struct nicless_said *m, const struct nicless_qp *q,
                                    struct nicless_peer *p) {
	const uint8_t *b = m->body;
	size_t head = 28, n;
	memset(p, 0, sizeof *p);
	if (m->size < head || b[1] != 0 || (b[0] != 1 && b[0] != 2))
		return 0;
	if (b[0] == 2)
		head += 16; /* the IP address */
	p->device = m->at.device;
	memcpy(&p->qpn, b + 4, 4);
	memcpy(&p->psn, b + 8, 4);
	memcpy(&p->type, b + 24, 4);
	if (m->size < head || p->qpn > 0xffffff || p->psn > 0xffffff || p->type != q->type)
		return 0;
	if (b[2] == 0 && b[3] == 0)
		return 1;
	if (m->size < head + 21 || m->size < head + 21 + b[head + 20])
		return 0;
	memcpy(&p->addr, b + head, 8);
	memcpy(&p->length, b + head + 8, 8);
	memcpy(&p->rkey, b + head + 16, 4);
	n = b[head + 20];
	if (n > sizeof p->name - 1)
		n = sizeof p->name - 1;
	memcpy(p->name, b + head + 21, n);
	return 1;
}

/* Returns the box behind a name in an announcement; 0: it has no such name. */
static inline uint64_t nicless_name_find(const uint8_t *value, size_t size, const char *name) {
	static const char mark[] = "\0names1";
	const size_t tail = 2 + sizeof mark - 1, n = strlen(name);
	uint64_t box;
	size_t part, at, each;
	if (size < tail || memcmp(value + size - (sizeof mark - 1), mark, sizeof mark - 1) != 0)
		return 0;
	size -= tail;
	part = value[size] | (size_t)value[size + 1] << 8;
	if (part < 8 || part > size)
		return 0;
	at = size - part;
	memcpy(&box, value + at, 8);
	for (at += 8; at < size; at += 1 + each) {
		each = value[at];
		if (1 + each > size - at)
			return 0;
		if (each == n && memcmp(value + at + 1, name, n) == 0)
			return box;
	}
	return 0;
}

/* A name that a program dials, and where. */
struct nicless_target {
	char name[NICLESS_MAX_NAME + 1];
	uint64_t engine; /* 0: any */
	uint8_t gid[16]; /* of an address; 0: none */
};

static inline int nicless_is_zero(const uint8_t gid[16]) {
	static const uint8_t zero[16] = {0};
	return memcmp(gid, zero, sizeof zero) == 0;
}

/* Reads the number of an engine, and returns 0 if s is none. */
static inline uint64_t nicless_engine_number(const char *s) {
	return strspn(s, "0123456789abcdefABCDEF") == 16 && s[16] == 0 ? strtoull(s, 0, 16) : 0;
}

/* Reads an IP address, and returns 0 if s is none of a host. */
static inline int nicless_address(const char *s, uint8_t gid[16]) {
	static const uint8_t v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, none[4] = {0};
	memcpy(gid, v4, sizeof v4);
	if (inet_pton(AF_INET, s, gid + sizeof v4) != 1 && inet_pton(AF_INET6, s, gid) != 1)
		return 0;
	return !nicless_is_zero(gid) && (memcmp(gid, v4, sizeof v4) != 0 || memcmp(gid + 12, none, 4) != 0);
}

/* Reads a name with a place. Context.DialName takes the same. */
static inline int nicless_target_read(struct nicless_client *c, const char *s, struct nicless_target *t) {
	const char *at = strchr(s, '@');
	size_t n = at ? (size_t)(at - s) : strlen(s);
	memset(t, 0, sizeof *t);
	if (n > NICLESS_MAX_NAME)
		return nicless_fail(c, -EINVAL, "name of %zu bytes; 1 to %d are possible", n, NICLESS_MAX_NAME);
	memcpy(t->name, s, n);
	if (at && (t->engine = nicless_engine_number(at + 1)) == 0 && !nicless_address(at + 1, t->gid))
		return nicless_fail(c, -EINVAL,
		                    "\"%s\" follows the @; the number of an engine (16 hexadecimal digits) or an IP address is possible",
		                    at + 1);
	return nicless_name_check(c, t->name);
}

/* Finds the one other client that announces a name. At an address, its number is not known. */
static inline int nicless_name_lookup(struct nicless_client *c, const struct nicless_target *t,
                                      struct nicless_box_message *to) {
	const char *name = t->name;
	uint64_t engine = t->engine;
	uint8_t own[16];
	struct nicless_announcement_place place, next;
	uint8_t in[NICLESS_MAX_PAYLOAD];
	uint64_t box;
	size_t size;
	int error, found = 0;
	memset(&place, 0, sizeof place);
	memset(to, 0, sizeof *to);
	if (!nicless_is_zero(t->gid)) {
		if ((error = nicless_ask(c, NICLESS_OP_ADDRESS, 0, 0, own, sizeof own)) != 0)
			return error;
		if (memcmp(own, t->gid, sizeof own) != 0) {
			memcpy(to->gid, t->gid, sizeof to->gid);
			return 0;
		}
		engine = c->device.guid;
	}
	for (;;) {
		if ((error = nicless_ask_some(c, NICLESS_OP_NEXT_ANNOUNCEMENT, &place, sizeof place, in, sizeof in, &size)) != 0)
			return error;
		if (size < 12)
			return nicless_fail(c, -EPROTO, "announcement of %zu bytes", size);
		memset(&next, 0, sizeof next);
		memcpy(&next, in, 12);
		if (next.client == 0)
			break;
		if (next.device < place.device || (next.device == place.device && next.client <= place.client))
			return nicless_fail(c, -EPROTO, "the engine lists announcements out of order");
		place = next;
		if (engine != 0 && place.device != engine)
			continue;
		if ((box = nicless_name_find(in + 12, size - 12, name)) != 0) {
			to->device = place.device;
			to->number = box;
			found++;
		}
	}
	if (found > 1)
		return nicless_fail(c, -EINVAL, "%d programs announce \"%s\"; dial NAME@ENGINE, if they are not on one engine", found, name);
	return found ? 0 : nicless_fail(c, -ENOENT, "no other program announces \"%s\" to this one", name);
}

/* Connects q with the peer, which has sent its packet number, at the engine from which the message m came. */
static inline int nicless_name_connect(struct nicless_client *c, const struct nicless_qp *q,
                                       const struct nicless_peer *p, const struct nicless_said *m) {
	uint8_t place[NICLESS_PEER_PLACE];
	int error;
	if (p->device != c->device.guid) { /* over RoCE the address of the message counts */
		memset(place, 0, sizeof place);
		memcpy(place, &p->device, 8);
		memcpy(place + 8, &q->qpn, 4);
		memcpy(place + 12, m->at.gid, 16);
		if ((error = nicless_ask(c, NICLESS_OP_SET_PEER, place, sizeof place, 0, 0)) != 0)
			return error;
	}
	return nicless_qp_connect_from(c, q, p->qpn, p->device, p->psn);
}

/* Reports whether a message comes from the listener. An engine with several addresses answers from one of
 * them, but the id of the dial, which is random, shows that it is an answer. */
static inline int nicless_is_from(const struct nicless_box_message *from, const struct nicless_box_message *to) {
	return to->number ? from->device == to->device && from->number == to->number : !nicless_is_zero(from->gid);
}

/*
 * Connects q, which is in INIT as nicless_qp_open makes it, with a queue pair of the program that
 * listens under the name. offer is the memory that the peer may use: its addr, length, rkey and name
 * count; 0: none. After an error of connecting, q may only be closed.
 */
static inline int nicless_dial_name(struct nicless_client *c, const char *name, const struct nicless_qp *q,
                                    const struct nicless_peer *offer, uint32_t milliseconds,
                                    struct nicless_peer *peer) {
	struct nicless_said dial, in;
	struct nicless_target target;
	uint64_t box, began = nicless_milliseconds(), sent = 0;
	int error, turn;
	memset(&dial, 0, sizeof dial);
	if ((error = nicless_target_read(c, name, &target)) != 0 || (error = nicless_box_open(c, &box)) != 0 ||
	    (error = nicless_name_lookup(c, &target, &dial.at)) != 0)
		return error;
	dial.kind = NICLESS_DIAL;
	dial.id = box ^ (began << 24 | q->qpn); /* the number of the box is random, and with it this one */
	strcpy(dial.name, target.name);
	nicless_describe(c, q, offer, &dial);
	for (;; nicless_nap()) {
		uint64_t now = nicless_milliseconds();
		if (sent == 0 || now - sent >= NICLESS_RESEND) {
			error = nicless_say(c, &dial);
			if (error && error != -EBUSY)
				return error;
			sent = now;
		}
		for (turn = 0; turn < NICLESS_TURN; turn++) {
			if ((error = nicless_hear(c, &in)) != 0)
				return error;
			if (in.at.number == 0)
				break;
			if (in.id != dial.id || !nicless_is_from(&in.at, &dial.at))
				continue;
			if (in.kind == NICLESS_REJECT)
				return nicless_fail(c, -ECONNREFUSED, "the listener has refused: %.*s", (int)in.size,
				                    (const char *)in.body);
			if (in.kind != NICLESS_ACCEPT)
				continue;
			dial.at = in.at;
			dial.name[0] = 0;
			dial.size = 0;
			if (!nicless_described(&in, q, peer))
				error = nicless_fail(c, -EPROTO, "the listener accepts with no queue pair of this type");
			else
				error = nicless_name_connect(c, q, peer, &in);
			dial.kind = error ? NICLESS_CANCEL : NICLESS_READY;
			(void)nicless_say(c, &dial);
			if (error == 0)
				(void)nicless_say(c, &dial); /* again: nothing answers a late Accept from now on */
			return error;
		}
		if (now - began >= milliseconds) {
			dial.name[0] = 0;
			dial.size = 0;
			dial.kind = NICLESS_CANCEL;
			(void)nicless_say(c, &dial);
			return nicless_fail(c, -ETIMEDOUT, "the listener \"%s\" has not accepted in %u ms", name, milliseconds);
		}
	}
}

/*
 * Announces a name to programs of the same user, or to all. It replaces what the client has announced
 * before. An empty name withdraws it.
 */
static inline int nicless_listen_name(struct nicless_client *c, const char *name, int to_all) {
	uint8_t out[4 + 8 + 1 + NICLESS_MAX_NAME + 2 + 7];
	uint32_t audience = to_all ? 1 : 0;
	uint64_t box;
	size_t n = strlen(name), at = 4;
	int error;
	memset(out, 0, sizeof out);
	memcpy(out, &audience, 4);
	if (n == 0)
		return nicless_ask(c, NICLESS_OP_ANNOUNCE_TO, out, 4, 0, 0);
	if ((error = nicless_name_check(c, name)) != 0 || (error = nicless_box_open(c, &box)) != 0)
		return error;
	memcpy(out + at, &box, 8);
	out[at + 8] = (uint8_t)n;
	memcpy(out + at + 9, name, n);
	at += 9 + n;
	out[at] = (uint8_t)(9 + n);
	memcpy(out + at + 2, "\0names1", 7);
	return nicless_ask(c, NICLESS_OP_ANNOUNCE_TO, out, at + 9, 0, 0);
}

/* Sends the answer to a dial, with what is in m. */
static inline int nicless_answer(struct nicless_client *c, struct nicless_said *m, uint8_t kind, const char *why) {
	m->kind = kind;
	m->name[0] = 0;
	if (why) {
		m->size = strlen(why);
		memcpy(m->body, why, m->size);
	}
	return nicless_say(c, m);
}

/*
 * Waits until a program dials the name, and connects q, which is in INIT, with its queue pair. Dials of
 * other names and of queue pairs of another type are refused. After an error that came later than
 * -ETIMEDOUT without a dial, q may be connected already, and may only be closed.
 */
static inline int nicless_accept_name(struct nicless_client *c, const char *name, const struct nicless_qp *q,
                                      const struct nicless_peer *offer, uint32_t milliseconds,
                                      struct nicless_peer *peer) {
	struct nicless_said in, call;
	uint64_t began = nicless_milliseconds(), sent = 0;
	int error, turn, connected = 0;
	memset(&call, 0, sizeof call);
	for (;; nicless_nap()) {
		uint64_t now = nicless_milliseconds();
		for (turn = 0; turn < NICLESS_TURN; turn++) {
			if ((error = nicless_hear(c, &in)) != 0)
				return error;
			if (in.at.number == 0)
				break;
			if (connected) {
				if (in.id != call.id || in.at.device != call.at.device || in.at.number != call.at.number) {
					if (in.kind == NICLESS_DIAL) /* it sends again, and has its turn at the next call */
						(void)nicless_answer(c, &in, NICLESS_HOLD, "");
				} else if (in.kind == NICLESS_READY) {
					return 0;
				} else if (in.kind == NICLESS_CANCEL) {
					return nicless_fail(c, -ECONNREFUSED, "the dialler has given up");
				}
				continue;
			}
			if (in.kind != NICLESS_DIAL)
				continue;
			if (strcmp(in.name, name) != 0) {
				(void)nicless_answer(c, &in, NICLESS_REJECT, "nobody listens under this name here");
				continue;
			}
			if (!nicless_described(&in, q, peer)) {
				(void)nicless_answer(c, &in, NICLESS_REJECT, "it is no queue pair of the listener's type");
				continue;
			}
			if ((error = nicless_name_connect(c, q, peer, &in)) != 0) {
				(void)nicless_answer(c, &in, NICLESS_REJECT, "the listener could not connect its queue pair");
				return error;
			}
			call = in;
			call.kind = NICLESS_ACCEPT;
			call.name[0] = 0;
			nicless_describe(c, q, offer, &call);
			connected = 1;
		}
		if (connected && (sent == 0 || now - sent >= NICLESS_RESEND)) {
			error = nicless_say(c, &call);
			if (error && error != -EBUSY)
				return error;
			sent = now;
		}
		if (now - began >= milliseconds)
			return nicless_fail(c, -ETIMEDOUT, connected ? "the dialler of \"%s\" is not ready after %u ms"
			                                             : "nobody has dialled \"%s\" in %u ms", name, milliseconds);
	}
}

#endif
