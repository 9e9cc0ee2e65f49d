/*
 * Packets: from the engine's ring to peers, and from peers to the engine's ring.
 *
 * A packet stays in the ring until UCX has sent it. A peer sends no more than it was granted. So
 * what the ring to the engine has no room for is bounded, and waits here.
 */
#include "carrier.h"
#include "control.h"

#include <stdlib.h>
#include <string.h>

/* PATIENCE is how long packets for other peers wait behind one that takes no packets. */
#define PATIENCE (5 * MILLISECOND)

enum { BATCH = 64 };

/* An op is a packet of the ring from the engine that was taken. */
struct op {
	struct connection *c;
	bool done;
	unsigned char *copy; /* the payload, if it is encrypted; else NULL */
	unsigned char header[PREFIX_SEALED + RING_MAX_HEAD];
};

/* A held packet waits for room in the ring to the engine. */
struct held {
	struct held *next;
	struct connection *c; /* NULL: the connection is gone, and the packet with it */
	unsigned head_length, length;
	unsigned char bytes[];
};

/* A packet with a payload counts as this many bytes of credit. */
static uint64_t cost(unsigned length) { return length; }

static void sent(void *request, ucs_status status, void *user_data) {
	(void)status;
	struct op *o = user_data;
	o->c->flying--;
	o->done = true;
	free(o->copy);
	o->copy = NULL;
	if (request)
		ucp.ucp_request_free(request);
}

/* blocked reports whether a packet has to wait for credits of its peer. If there are other peers,
 * it does not wait for long, because they wait too: then it is dropped, and the engine repeats it. */
static bool blocked(struct connection *c, const struct packet *p, bool *drop) {
	*drop = false;
	if (c->sent_packets < c->may_packets && c->sent_bytes + cost(p->length) <= c->may_bytes) {
		c->stuck = 0;
		return false;
	}
	if (!c->stuck)
		c->stuck = carrier.now;
	*drop = carrier.up > 1 && carrier.now - c->stuck > PATIENCE;
	return !*drop;
}

/* transmit sends a packet. */
static void transmit(struct connection *c, struct op *o, struct packet *p) {
	struct prefix prefix;
	const unsigned char *payload = p->payload;
	o->c = c;
	o->done = true;
	if (c->seal.encrypts && p->length && !(o->copy = malloc(p->length)))
		return; /* the packet is lost, and the engine repeats it */
	struct body body = {.head = p->head, .data = (unsigned char *)(uintptr_t)p->payload,
	                    .head_length = p->head_length, .data_length = p->length};
	size_t length = prefix_for(c, AM_PACKET, &prefix, &body, o->copy);
	if (!length) {
		free(o->copy);
		o->copy = NULL;
		return;
	}
	memcpy(o->header, &prefix, length);
	memcpy(o->header + length, p->head, p->head_length);
	if (o->copy)
		payload = o->copy;
	o->done = false;
	c->sent_packets++;
	c->sent_bytes += cost(p->length);
	c->flying++;
	c->spoken = carrier.now;
	ucp_request_param param = {.mask = 2 | 4 | 0x10, .flags = 2, .callback = sent, .user_data = o};
	request r = ucp.ucp_am_send_nbx(c->ep, AM_PACKET, o->header, length + p->head_length, payload, p->length,
	                                &param);
	if (!r || failed(r))
		sent(NULL, OK, o);
	if (failed(r)) {
		c->mute = true;
		connection_fault(c, ucp.ucs_status_string(status_of(r)));
	}
}

/* packets_send sends packets of the engine, and returns how many it has taken. */
unsigned packets_send(void) {
	struct ring *r = &carrier.out;
	unsigned n = 0;
	struct packet p;
	for (; n < BATCH; n++) {
		int got = ring_peek(r, &p);
		if (got < 0)
			fatal("the engine's ring holds what no packet can be");
		/* An op is used again when its packet was freed: the ring has as many slots. */
		if (!got)
			break;
		struct op *o = &carrier.ops[r->next & r->mask];
		struct connection *c = carrier.paths[p.path % PATHS];
		bool drop = !c || c->path != p.path || c->state != UP || c->mute;
		if (!drop && blocked(c, &p, &drop))
			break;
		if (drop) {
			o->done = true;
			if (c)
				c->dropped++;
		} else {
			transmit(c, o, &p);
		}
		ring_take(r);
	}
	uint64_t done = carrier.out_done;
	while (done < r->next && carrier.ops[done & r->mask].done)
		carrier.ops[done++ & r->mask].done = false;
	if (done != carrier.out_done)
		ring_free(r, carrier.out_done = done);
	return n;
}

/* grant lets the peer send as much again as has left this process. */
void grant(struct connection *c, uint64_t packets, uint64_t bytes) {
	c->granted_packets += packets;
	c->granted_bytes += bytes;
	if (untold(c))
		carrier.attention = true;
}

static ucs_status arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param *param) {
	(void)arg;
	struct body b;
	/* A descriptor in place of the data is no packet: it is dropped like one that is too long. */
	struct connection *c = prefix_from(AM_PACKET, header, header_length, data,
	                                   param->recv_attr & 0x20000 ? RING_MAX_PAYLOAD + 1 : length, &b);
	if (!c)
		return OK;
	size_t head = b.head_length;
	if (head + length > RING_INLINE && length > carrier.in.size / 2) {
		connection_fault(c, "the peer has sent a packet that is not valid");
		return OK;
	}
	if (c->got_packets + 1 > c->granted_packets || c->got_bytes + cost((unsigned)length) > c->granted_bytes) {
		connection_fault(c, "the peer has sent more than it was allowed to");
		return OK;
	}
	c->got_packets++;
	c->got_bytes += cost((unsigned)length);
	if (!carrier.held && ring_put(&carrier.in, c->path, b.head, (unsigned)head, b.data, (unsigned)length)) {
		carrier.put = true;
		grant(c, 1, cost((unsigned)length));
		return OK;
	}
	struct held *k = malloc(sizeof *k + head + length);
	if (!k) {
		grant(c, 1, cost((unsigned)length));
		return OK; /* the packet is lost, and the peer's engine repeats it */
	}
	*k = (struct held){.c = c, .head_length = (unsigned)head, .length = (unsigned)length};
	memcpy(k->bytes, b.head, head);
	if (length)
		memcpy(k->bytes + head, b.data, length);
	*carrier.held_end = k;
	carrier.held_end = &k->next;
	return OK;
}

/* packets_receive puts packets that wait into the ring to the engine. It returns how many. */
unsigned packets_receive(void) {
	unsigned n = 0;
	struct held *k;
	while ((k = carrier.held)) {
		if (k->c) {
			if (!ring_put(&carrier.in, k->c->path, k->bytes, k->head_length, k->bytes + k->head_length,
			              k->length))
				break;
			carrier.put = true;
			grant(k->c, 1, cost(k->length));
		}
		if (!(carrier.held = k->next))
			carrier.held_end = &carrier.held;
		free(k);
		n++;
	}
	return n;
}

/* packets_forget drops what waits and has come over a connection. */
void packets_forget(struct connection *c) {
	for (struct held *k = carrier.held; k; k = k->next)
		if (k->c == c)
			k->c = NULL;
}

const char *packets_start(void) {
	carrier.held_end = &carrier.held;
	carrier.ops = calloc(carrier.out.mask + 1, sizeof *carrier.ops);
	if (!carrier.ops)
		return "no memory";
	ucp_am_handler_param p = {15, AM_PACKET, 1, arrived, NULL};
	ucs_status s = ucp.ucp_worker_set_am_recv_handler(carrier.worker, &p);
	return s == OK ? NULL : ucp.ucs_status_string(s);
}
