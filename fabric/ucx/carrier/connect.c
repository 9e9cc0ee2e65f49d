/* Connections: listening, connecting, seeing that a peer is dead, closing. */
#define _GNU_SOURCE
#include "carrier.h"
#include "control.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

/* How long a new connection may take until both sides have accepted it. */
#define SHAKE_TIME (3 * SECOND)

static void *requests[CONNECTIONS]; /* connection requests that wait for connections_accept */
static unsigned requested;

uint64_t random64(void) {
	uint64_t v = 0;
	while (!v)
		(void)!getrandom(&v, sizeof v, 0);
	return v;
}

static struct connection *begin(uint32_t target) {
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &carrier.connections[i];
		if (c->state != FREE)
			continue;
		memset(c, 0, sizeof *c);
		c->number = ++carrier.numbers;
		c->target = target;
		c->here = (random64() & ~(uint64_t)0xff) | i;
		c->since = c->heard = c->spoken = carrier.now;
		c->granted_packets = c->told_packets = WINDOW_PACKETS;
		c->granted_bytes = c->told_bytes = WINDOW_BYTES;
		return c;
	}
	return NULL;
}

struct connection *connection_of(uint64_t token) {
	struct connection *c = &carrier.connections[(token & 0xff) % CONNECTIONS];
	return c->state != FREE && c->here == token ? c : NULL;
}

struct connection *connection_numbered(uint32_t number) {
	for (struct connection *c = carrier.connections; c < carrier.connections + CONNECTIONS; c++)
		if (c->state != FREE && c->state != CLOSING && c->number == number)
			return c;
	return NULL;
}

void connection_fault(struct connection *c, const char *why) {
	if (!c->fault)
		c->fault = why;
	carrier.attention = true;
}

/* broken is UCX's callback for an endpoint that has failed. The endpoint is closed later. */
static void broken(void *arg, void *ep, ucs_status status) {
	for (struct connection *c = carrier.connections; c < carrier.connections + CONNECTIONS; c++)
		if (c == arg && c->ep == ep && (c->state == SHAKING || c->state == UP)) {
			c->mute = true;
			connection_fault(c, status == REJECTED ? "the peer has refused the connection" : ucp.ucs_status_string(status));
		}
}

static struct addrinfo *parse(const char *host, const char *port) {
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *list;
	return getaddrinfo(host, port, &hints, &list) ? NULL : list;
}

/* requested_by is UCX's callback for a connection request. */
static void requested_by(void *request, void *arg) {
	(void)arg;
	if (requested < CONNECTIONS)
		requests[requested++] = request;
	else
		ucp.ucp_listener_reject(carrier.listener, request);
}

const char *listen_at(const char *host, const char *port) {
	static char why[200];
	struct addrinfo *a = parse(host, port);
	if (!a)
		return "this is no address";
	ucp_listener_params p = {.mask = 1 | 4, .address = a->ai_addr, .address_length = a->ai_addrlen, .conn = requested_by};
	ucs_status s = ucp.ucp_listener_create(carrier.worker, &p, &carrier.listener);
	freeaddrinfo(a);
	if (s == OK)
		return NULL;
	snprintf(why, sizeof why, "%s", ucp.ucs_status_string(s));
	return why;
}

static void name_of(struct connection *c, const void *address) {
	char host[48] = "", port[8] = "";
	const struct sockaddr *a = address;
	socklen_t n = a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	if (!getnameinfo(a, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(c->remote, sizeof c->remote, a->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

void connect_to(uint32_t target, const char *host, const char *port) {
	struct connection *c = begin(target);
	struct addrinfo *a = parse(host, port);
	const char *why = !c ? "too many connections" : !a ? "this is no address" : NULL;
	if (!why) {
		name_of(c, a->ai_addr);
		ucp_ep_params p = {
			.mask = 2 | 4 | 0x10 | 0x20, .err_mode = 1, .err_callback = broken, .err_arg = c,
			.flags = 1, .address = a->ai_addr, .address_length = a->ai_addrlen,
		};
		ucs_status s = ucp.ucp_ep_create(carrier.worker, &p, &c->ep);
		if (s == OK) {
			c->state = SHAKING;
			greet(c);
		} else {
			why = ucp.ucs_status_string(s);
		}
	}
	if (why)
		tell(M_GONE, 0, target, 0, 0, why, strlen(why));
	if (a)
		freeaddrinfo(a);
}

/* connections_accept makes connections of the requests that have come. */
void connections_accept(void) {
	while (requested) {
		void *r = requests[--requested];
		ucp_conn_request_attr from = {.mask = 1};
		bool known = ucp.ucp_conn_request_query(r, &from) == OK;
		struct connection *c = begin(0);
		if (!c) {
			ucp.ucp_listener_reject(carrier.listener, r);
			continue;
		}
		if (known)
			name_of(c, from.client_address);
		ucp_ep_params p = {.mask = 2 | 4 | 0x40, .err_mode = 1, .err_callback = broken, .err_arg = c, .conn_request = r};
		if (ucp.ucp_ep_create(carrier.worker, &p, &c->ep) != OK)
			continue;
		/* It says hello when the peer's has come: UCX 1.13 may choose a way of sending for a message
		 * before the endpoint is complete, and find it impossible later. */
		c->state = SHAKING;
	}
}

/* close_now begins to close a connection by force, and says so. */
static void close_now(struct connection *c) {
	if (c->state == UP)
		carrier.up--;
	tell(M_COUNTS, c->number, c->sent_packets, c->got_packets, c->dropped, NULL, 0);
	tell(M_GONE, c->number, c->target, 0, 0, c->fault, strlen(c->fault));
	c->state = CLOSING;
	packets_forget(c);
	for (unsigned i = 0; i < PATHS; i++)
		if (carrier.paths[i] == c) {
			carrier.paths[i] = NULL;
			/* Perhaps there is another connection with the same peer. */
			for (struct connection *o = carrier.connections; o < carrier.connections + CONNECTIONS; o++)
				if (o->state == UP && o->path == c->path)
					carrier.paths[i] = o;
		}
	ucp_request_param force = {.mask = 0x10, .flags = 1};
	c->closing = ucp.ucp_ep_close_nbx(c->ep, &force);
	c->ep = NULL;
	if (failed(c->closing))
		c->closing = NULL;
}

/* serve looks after one connection. */
static void serve(struct connection *c) {
	uint64_t now = carrier.now;
	switch (c->state) {
	case FREE:
		return;
	case CLOSING:
		if (c->closing && ucp.ucp_request_check_status(c->closing) != IN_PROGRESS) {
			ucp.ucp_request_free(c->closing);
			c->closing = NULL;
		}
		if (!c->closing && !c->flying)
			c->state = FREE;
		return;
	case SHAKING:
		if (!c->fault && now - c->since > SHAKE_TIME)
			connection_fault(c, c->there ? "the connection was not accepted in time" : "the other side does not speak as nicless does");
		break;
	case UP:
		if (!c->fault && now - c->heard > carrier.deadline)
			connection_fault(c, "the peer is silent");
		break;
	}
	if (c->fault) {
		if (!c->mute && now < c->linger)
			return;
		close_now(c);
		return;
	}
	if (c->state != UP)
		return;
	if (now - c->spoken > carrier.deadline / 5 || untold(c))
		say(c, SAY_BEAT, NULL);
	uint64_t sum = c->sent_packets + c->got_packets + c->dropped;
	if (sum != c->reported) {
		c->reported = sum;
		tell(M_COUNTS, c->number, c->sent_packets, c->got_packets, c->dropped, NULL, 0);
	}
}

void connections_serve(void) {
	carrier.attention = false;
	for (unsigned i = 0; i < CONNECTIONS; i++)
		serve(&carrier.connections[i]);
}
