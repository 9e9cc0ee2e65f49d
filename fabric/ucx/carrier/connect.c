/* Connections with peers: opening, seeing that a peer is dead, closing. */
#define _GNU_SOURCE
#include "carrier.h"
#include "control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* How long a new connection may take until both sides have received a message: about as long as a peer that
 * is up may be silent, because a machine that is busy is so from the first word on. Not longer than 10 s: on
 * a busy machine the first message over shared memory sometimes never comes, and another attempt helps. */
static uint64_t shake_time(void) {
	uint64_t least = 3 * SECOND, most = 10 * SECOND;
	return carrier.deadline < least ? least : carrier.deadline > most ? most : carrier.deadline;
}

uint64_t random64(void) {
	uint64_t v = 0;
	while (!v)
		(void)!getrandom(&v, sizeof v, 0);
	return v;
}

struct connection *connection_of(const unsigned char token[TOKEN]) {
	static unsigned last; /* most messages come over the connection of the one before */
	for (unsigned i = 0; i < PLACES; i++) {
		struct connection *c = &carrier.connections[(last + i) % PLACES];
		if ((c->state == SHAKING || c->state == UP) && !memcmp(c->here, token, TOKEN)) {
			last = (last + i) % PLACES;
			return c;
		}
	}
	return NULL;
}

void connection_fault(struct connection *c, const char *why) {
	if (!c->fault)
		c->fault = why;
	carrier.attention = true;
}

/* broken is UCX's callback for an endpoint that has failed. The endpoint is closed later. */
static void broken(void *arg, void *ep, ucs_status status) {
	for (struct connection *c = carrier.connections; c < carrier.connections + PLACES; c++)
		if (c == arg && c->ep == ep && (c->state == SHAKING || c->state == UP)) {
			c->mute = true;
			connection_fault(c, ucp.ucs_status_string(status));
		}
}

/* reach makes the endpoint of a connection. libucp may end this process if the peer's worker address is
 * not valid: so the engine's process gets its connection before. */
static void reach(struct connection *c) {
	ucp_ep_params p = {.mask = 1 | 2 | 4, .worker_address = c->worker_address, .err_mode = 1,
	                   .err_callback = broken, .err_arg = c};
	tell(M_TRY, c->number, 0, 0, 0, NULL, 0);
	ucs_status s = ucp.ucp_ep_create(carrier.worker, &p, &c->ep);
	tell(M_TRY, 0, 0, 0, 0, NULL, 0);
	free(c->worker_address);
	c->worker_address = NULL;
	if (s != OK) {
		c->ep = NULL;
		c->mute = true;
		connection_fault(c, ucp.ucs_status_string(s));
		return;
	}
	say(c, SAY_ACCEPT);
}

/* finish frees the place of a connection that close_now has closed, if UCX needs the place no more. */
static void finish(struct connection *c) {
	if (c->closing && ucp.ucp_request_check_status(c->closing) != IN_PROGRESS) {
		ucp.ucp_request_free(c->closing);
		c->closing = NULL;
	}
	if (!c->closing && !c->flying) {
		seal_end(&c->seal);
		c->state = FREE;
	}
}

/* free_place returns a free place for a connection, NULL if there is none. */
static struct connection *free_place(void) {
	for (struct connection *c = carrier.connections; c < carrier.connections + PLACES; c++) {
		if (c->state == CLOSING)
			finish(c);
		if (c->state == FREE)
			return c;
	}
	return NULL;
}

void connection_open(const struct opening *o) {
	struct connection *c = free_place();
	const char *why = "too many connections";
	if (c) {
		memset(c, 0, sizeof *c);
		c->number = o->number;
		c->path = o->path;
		c->active = o->active;
		memcpy(c->here, o->here, TOKEN);
		memcpy(c->there, o->there, TOKEN);
		c->since = c->heard = c->spoken = carrier.now;
		c->granted_packets = c->told_packets = WINDOW_PACKETS;
		c->granted_bytes = c->told_bytes = WINDOW_BYTES;
		why = seal_begin(&c->seal, o->cipher, o->key_out, o->key_in, o->encrypts);
	}
	if (!why && !(c->worker_address = malloc(o->worker_address_length)))
		why = "no memory";
	if (!why && !gate_route(&o->route))
		why = "too many connections";
	if (why) {
		if (c)
			seal_end(&c->seal);
		if (c)
			free(c->worker_address);
		tell(M_GONE, o->number, 0, 0, 0, why, strlen(why));
		return;
	}
	memcpy(c->worker_address, o->worker_address, o->worker_address_length);
	c->state = SHAKING;
	if (c->active)
		reach(c);
}

void connection_close(uint32_t number, const char *why) {
	for (struct connection *c = carrier.connections; c < carrier.connections + PLACES; c++)
		if ((c->state == SHAKING || c->state == UP) && c->number == number) {
			snprintf(c->why, sizeof c->why, "%s", why);
			connection_fault(c, c->why);
		}
}

/* close_now begins to close a connection by force, and reports that. */
static void close_now(struct connection *c) {
	if (c->state == UP)
		carrier.up--;
	tell(M_COUNTS, c->number, c->sent_packets, c->got_packets, c->dropped, NULL, 0);
	tell(M_GONE, c->number, 0, 0, 0, c->fault, strlen(c->fault));
	c->state = CLOSING;
	gate_forget(c->number);
	packets_forget(c);
	free(c->worker_address);
	c->worker_address = NULL;
	for (unsigned i = 0; i < PATHS; i++)
		if (carrier.paths[i] == c) {
			carrier.paths[i] = NULL;
			/* Perhaps there is another connection with the same peer. */
			for (struct connection *o = carrier.connections; o < carrier.connections + PLACES; o++)
				if (o->state == UP && o->path == c->path)
					carrier.paths[i] = o;
		}
	if (!c->ep)
		return;
	ucp_request_param force = {.mask = 0x10, .flags = 1};
	c->closing = ucp.ucp_ep_close_nbx(c->ep, &force);
	c->ep = NULL;
	if (failed(c->closing))
		c->closing = NULL;
}

/* risen notes that both sides have received a message. */
static void risen(struct connection *c) {
	c->state = UP;
	c->heard = carrier.now;
	carrier.up++;
	carrier.paths[c->path % PATHS] = c;
	tell(M_UP, c->number, 0, 0, 0, NULL, 0);
}

/* serve looks after one connection. */
static void serve(struct connection *c) {
	uint64_t now = carrier.now;
	switch (c->state) {
	case FREE:
		return;
	case CLOSING:
		finish(c);
		return;
	case SHAKING:
		/* The passive side makes its endpoint when the peer's first message is there: then UCX gives
		 * the one that it has already, and makes no connections the other way. */
		if (!c->fault && c->called && !c->active)
			reach(c);
		if (!c->fault && c->called)
			risen(c);
		else if (!c->fault && now - c->since > shake_time())
			connection_fault(c, c->active ? "the peer does not answer over UCX"
			                              : "nothing has come from the peer over UCX");
		break;
	case UP:
		if (!c->fault && now - c->heard > carrier.deadline)
			connection_fault(c, "the peer is silent");
		break;
	}
	if (c->fault) {
		close_now(c);
		finish(c); /* the engine counts the place as free already */
		return;
	}
	if (c->state != UP)
		return;
	if (now - c->spoken > carrier.deadline / 5 || untold(c))
		say(c, SAY_BEAT);
	uint64_t sum = c->sent_packets + c->got_packets + c->dropped;
	if (sum != c->reported) {
		c->reported = sum;
		tell(M_COUNTS, c->number, c->sent_packets, c->got_packets, c->dropped, NULL, 0);
	}
}

/*
 * connections_held notes that this process was held up for so long: it had no core, or the machine stood
 * still. Then peers may have been held up as well, and what they have sent may not have been read yet. So
 * this time is no part of their silence.
 */
void connections_held(uint64_t time) {
	for (struct connection *c = carrier.connections; c < carrier.connections + PLACES; c++) {
		c->heard += time;
		c->since += time;
	}
}

void connections_serve(void) {
	carrier.attention = false;
	for (unsigned i = 0; i < PLACES; i++)
		serve(&carrier.connections[i]);
}
