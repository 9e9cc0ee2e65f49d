/*
 * What two carriers say to each other besides packets. All numbers are big-endian.
 *
 *	AM_HELLO   header: magic:64 | version:32 | 0:32 | token:64. Data: what the engine's process says
 *	           (fabric/ucx/hello.go). The side that has connected sends it
 *	           first, then the other; and again when it has changed. The
 *	           token is in all later messages to this side: so a message of an earlier connection
 *	           is never taken for one of this.
 *	AM_SAY     header: prefix (carrier.h) | what:32 | 0:32. Data: text, if what is SAY_BYE.
 *	AM_PACKET  header: prefix | headers of the packet. Data: its payload.
 *
 * Packets follow when both sides have said SAY_ACCEPT. The version comes first and its place never
 * changes, so that carriers of different versions can say so.
 */
#include "carrier.h"
#include "control.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 0x4e49434c45535355u /* "NICLESSU" */

enum { VERSION = 2, HELLO_HEADER = 24, SAY_HEADER = sizeof(struct prefix) + 8 };

/* A note is a message that is not a packet. It lives until it is sent. */
struct note {
	struct connection *c;
	unsigned char header[SAY_HEADER];
	unsigned char data[];
};

static void noted(void *request, ucs_status status, void *user_data) {
	(void)status;
	struct note *n = user_data;
	n->c->flying--;
	free(n);
	if (request)
		ucp.ucp_request_free(request);
}

/* send_note sends a message. flags are those of UCX for active messages. */
static void send_note(struct connection *c, unsigned id, unsigned flags, const void *header, size_t header_length, const void *data, size_t length) {
	struct note *n = c->ep && !c->mute ? malloc(sizeof *n + length) : NULL;
	if (!n)
		return;
	n->c = c;
	memcpy(n->header, header, header_length);
	if (length)
		memcpy(n->data, data, length);
	c->flying++;
	c->spoken = carrier.now;
	ucp_request_param p = {.mask = 2 | 4 | 0x10, .flags = flags, .callback = noted, .user_data = n};
	request r = ucp.ucp_am_send_nbx(c->ep, id, n->header, header_length, n->data, length, &p);
	if (!r || failed(r))
		noted(NULL, OK, n);
	if (failed(r)) {
		c->mute = true;
		connection_fault(c, ucp.ucs_status_string(status_of(r)));
	}
}

void greet(struct connection *c) {
	uint64_t h[3] = {be64(MAGIC), be64((uint64_t)VERSION << 32), be64(c->here)};
	c->greeted = carrier.greetings;
	send_note(c, AM_HELLO, 1 | 2, h, HELLO_HEADER, carrier.greeting, carrier.greeting_length);
}

void say(struct connection *c, uint32_t what, const char *why) {
	struct {
		struct prefix prefix;
		uint64_t what;
	} h = {prefix_for(c), be64((uint64_t)what << 32)};
	send_note(c, AM_SAY, 2, &h, SAY_HEADER, why, why ? strlen(why) : 0);
}

static void both(struct connection *c) {
	if (c->state != SHAKING || c->agreed != 3)
		return;
	c->state = UP;
	c->heard = carrier.now;
	carrier.up++;
	carrier.paths[c->path % PATHS] = c;
	if (c->greeted != carrier.greetings)
		greet(c); /* it has changed meanwhile */
	tell(M_UP, c->number, 0, 0, 0, NULL, 0);
}

void agree(struct connection *c, uint32_t path) {
	if (c->state != SHAKING || c->agreed & 1 || !c->there)
		return;
	c->path = path;
	c->agreed |= 1;
	say(c, SAY_ACCEPT, NULL);
	both(c);
}

void disagree(struct connection *c, const char *why) {
	if (c->there)
		say(c, SAY_BYE, why);
	c->linger = carrier.now + 100 * MILLISECOND;
	connection_fault(c, "this engine has refused the connection");
}

struct prefix prefix_for(struct connection *c) {
	c->told_packets = c->granted_packets;
	c->told_bytes = c->granted_bytes;
	return (struct prefix){be64(c->there), be64(c->granted_packets), be64(c->granted_bytes)};
}

struct connection *prefix_from(const void *header, size_t length) {
	struct prefix p;
	if (length < sizeof p) {
		carrier.violations++;
		return NULL;
	}
	memcpy(&p, header, sizeof p);
	struct connection *c = connection_of(be64(p.token));
	if (!c || !c->there || (c->state != SHAKING && c->state != UP)) {
		carrier.strangers++;
		return NULL;
	}
	c->heard = carrier.now;
	uint64_t packets = be64(p.packets), bytes = be64(p.bytes);
	/* Messages may overtake each other. */
	if (packets > c->may_packets)
		c->may_packets = packets;
	if (bytes > c->may_bytes)
		c->may_bytes = bytes;
	return c;
}

static ucs_status hello(void *arg, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param *param) {
	(void)arg;
	uint64_t h[3];
	struct connection *c = NULL;
	if (param->recv_attr & 1)
		for (struct connection *o = carrier.connections; o < carrier.connections + CONNECTIONS; o++)
			if (o->ep == param->reply_ep && (o->state == SHAKING || o->state == UP))
				c = o;
	if (!c) {
		carrier.strangers++;
		return OK;
	}
	memcpy(h, header, header_length < sizeof h ? header_length : sizeof h);
	if (header_length < 16 || be64(h[0]) != MAGIC)
		connection_fault(c, "the other side does not speak as nicless does");
	else if (be64(h[1]) >> 32 != VERSION)
		connection_fault(c, "the other side has another version of the protocol");
	else if (header_length != HELLO_HEADER || !h[2] || (c->there && c->there != be64(h[2])) || length > GREETING || param->recv_attr & 0x20000)
		connection_fault(c, "the peer's hello is not valid");
	else {
		if (!c->there && !c->target)
			greet(c);
		c->there = be64(h[2]);
		c->heard = carrier.now;
		tell2(M_MET, c->number, c->target, strlen(c->remote), c->remote, strlen(c->remote), data, length);
	}
	return OK;
}

static ucs_status said(void *arg, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param *param) {
	(void)arg;
	uint64_t what;
	struct connection *c = prefix_from(header, header_length);
	if (!c)
		return OK;
	if (header_length != SAY_HEADER) {
		connection_fault(c, "the peer has sent a message that is not valid");
		return OK;
	}
	memcpy(&what, (const unsigned char *)header + sizeof(struct prefix), sizeof what);
	switch (be64(what) >> 32) {
	case SAY_ACCEPT:
		c->agreed |= 2;
		both(c);
		break;
	case SAY_BYE: {
		if (c->fault)
			break; /* it may be what bye says */
		size_t n = param->recv_attr & 0x20000 ? 0 : length;
		n = n < sizeof c->bye - 1 ? n : sizeof c->bye - 1;
		memcpy(c->bye, n ? data : "", n);
		c->bye[n] = 0;
		c->mute = true;
		/* The engine's process wants a reason of at least one letter. */
		connection_fault(c, *c->bye ? c->bye : "the peer has closed the link");
		break;
	}
	}
	return OK;
}

const char *greet_handlers(void) {
	ucp_am_handler_param p[2] = {{15, AM_HELLO, 1, hello, NULL}, {15, AM_SAY, 1, said, NULL}};
	for (int i = 0; i < 2; i++) {
		ucs_status s = ucp.ucp_worker_set_am_recv_handler(carrier.worker, &p[i]);
		if (s != OK)
			return ucp.ucs_status_string(s);
	}
	return NULL;
}
