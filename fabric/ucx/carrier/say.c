/*
 * Messages of two carriers besides packets, and the prefix of each message.
 *
 *	AM_SAY     header: prefix (carrier.h) | what:32 | 0:32
 *	AM_PACKET  header: prefix | headers of the packet. Data: its payload.
 *
 * The engines' processes have had their meeting before, over a connection of their own (fabric/ucx/meet.go):
 * there each has sent the other a token, which is in all messages to it. So a message of an earlier
 * connection, or of a process without a meeting, is never taken for one of this.
 */
#include "carrier.h"
#include "control.h"

#include <stdlib.h>
#include <string.h>

enum { WHAT = 8 };

/* A note is a message that is not a packet. It lives until it is sent. */
struct note {
	struct connection *c;
	unsigned char header[PREFIX_SEALED + WHAT];
};

static void noted(void *request, ucs_status status, void *user_data) {
	(void)status;
	struct note *n = user_data;
	n->c->flying--;
	free(n);
	if (request)
		ucp.ucp_request_free(request);
}

void say(struct connection *c, uint32_t what) {
	struct note *n = c->ep && !c->mute ? malloc(sizeof *n) : NULL;
	if (!n)
		return;
	struct prefix prefix;
	uint64_t word = be64((uint64_t)what << 32);
	struct body body = {.head = (unsigned char *)&word, .head_length = WHAT};
	size_t length = prefix_for(c, AM_SAY, &prefix, &body, NULL);
	if (!length) {
		free(n);
		return;
	}
	memcpy(n->header, &prefix, length);
	memcpy(n->header + length, &word, WHAT);
	n->c = c;
	c->flying++;
	c->spoken = carrier.now;
	ucp_request_param p = {.mask = 2 | 4 | 0x10, .flags = 2, .callback = noted, .user_data = n};
	request r = ucp.ucp_am_send_nbx(c->ep, AM_SAY, n->header, length + WHAT, NULL, 0, &p);
	if (!r || failed(r))
		noted(NULL, OK, n);
	if (failed(r)) {
		c->mute = true;
		connection_fault(c, ucp.ucs_status_string(status_of(r)));
	}
}

/* encrypted reports whether the body of a message is encrypted. */
static bool encrypted(const struct connection *c, uint32_t id) { return c->seal.encrypts && id == AM_PACKET; }

size_t prefix_for(struct connection *c, uint32_t id, struct prefix *p, const struct body *b,
                  unsigned char *instead) {
	c->told_packets = c->granted_packets;
	c->told_bytes = c->granted_bytes;
	memcpy(p->token, c->there, TOKEN);
	p->packets = be64(c->granted_packets);
	p->bytes = be64(c->granted_bytes);
	if (!c->seal.out)
		return PREFIX_PLAIN;
	uint64_t count = seal_next(&c->seal);
	p->count = be64(count);
	struct part parts[3] = {
		{(unsigned char *)p, PREFIX_PLAIN}, {b->head, b->head_length}, {b->data, b->data_length}};
	unsigned char *to[3] = {NULL, b->head, instead};
	if (count && seal_close(&c->seal, id, count, parts, encrypted(c, id) ? 1 : 3, 3, to, p->tag))
		return PREFIX_SEALED;
	c->mute = true;
	connection_fault(c, count ? "libcrypto cannot seal a message" : "the keys of the connection are used up");
	return 0;
}

struct connection *prefix_from(uint32_t id, const void *header, size_t header_length, void *data,
                               size_t length, struct body *b) {
	static unsigned char head[RING_MAX_HEAD], clear[RING_MAX_PAYLOAD];
	struct prefix p;
	if (header_length < PREFIX_PLAIN) {
		carrier.violations++;
		return NULL;
	}
	memcpy(&p, header, header_length < sizeof p ? header_length : sizeof p);
	struct connection *c = connection_of(p.token);
	if (!c) {
		carrier.strangers++;
		return NULL;
	}
	size_t n = c->seal.in ? PREFIX_SEALED : PREFIX_PLAIN;
	*b = (struct body){.head = (unsigned char *)(uintptr_t)header + n, .data = data,
	                   .head_length = header_length - n, .data_length = length};
	if (header_length < n || b->head_length > RING_MAX_HEAD || length > RING_MAX_PAYLOAD) {
		/* With keys this is no reason to close: a stranger could have sent it. */
		if (c->seal.in)
			carrier.forged++;
		else
			connection_fault(c, "the peer has sent a message that is not valid");
		return NULL;
	}
	if (c->seal.in) {
		struct part parts[3] = {
			{(unsigned char *)&p, PREFIX_PLAIN}, {b->head, b->head_length}, {b->data, b->data_length}};
		unsigned char *to[3] = {NULL, head, clear};
		bool hidden = encrypted(c, id);
		if (!seal_open(&c->seal, id, be64(p.count), parts, hidden ? 1 : 3, 3, to, p.tag)) {
			carrier.forged++;
			return NULL;
		}
		if (hidden) {
			b->head = head;
			b->data = clear;
		}
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

static ucs_status said(void *arg, const void *header, size_t header_length, void *data, size_t length,
                       const ucp_am_recv_param *param) {
	(void)arg;
	uint64_t what;
	struct body b;
	struct connection *c = prefix_from(AM_SAY, header, header_length, data,
	                                   param->recv_attr & 0x20000 ? 0 : length, &b);
	if (!c)
		return OK;
	if (b.head_length != WHAT) {
		connection_fault(c, "the peer has sent a message that is not valid");
		return OK;
	}
	memcpy(&what, b.head, sizeof what);
	if (be64(what) >> 32 == SAY_ACCEPT) {
		c->called = true;
		carrier.attention = true;
	}
	return OK;
}

const char *say_handler(void) {
	ucp_am_handler_param p = {15, AM_SAY, 1, said, NULL};
	ucs_status s = ucp.ucp_worker_set_am_recv_handler(carrier.worker, &p);
	return s == OK ? NULL : ucp.ucs_status_string(s);
}
