/*
 * For the tests in Go: a program that speaks UCX, and is not nicless. It prints "doors" and "worker" with its
 * own doors and worker address. It reads where a peer is: doors:32 | tickets:32 | length of the worker
 * address:32 | any:32, in host order, and where the peer listens, doors, tickets, worker address. Then it
 * makes an endpoint, and sends what it reads as active messages: id:32 | flags:32 | header length:32 | data
 * length:32, header, data. It prints the headers of all messages that come: id and hexadecimal digits; and
 * "error" when the connection is lost.
 */
#define _GNU_SOURCE
#include "../abi.h"
#include "../gate.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = 21, LAST = 23 };

static void print(const char *what, const void *b, size_t n) {
	printf("%s ", what);
	for (size_t i = 0; i < n; i++)
		printf("%02x", ((const unsigned char *)b)[i]);
	puts("");
	fflush(stdout);
}

static ucs_status got(void *arg, const void *header, size_t header_length, void *data, size_t length,
                      const ucp_am_recv_param *p) {
	(void)data, (void)length, (void)p;
	char id[8];
	snprintf(id, sizeof id, "%td", (char *)arg - (char *)NULL);
	print(id, header, header_length);
	return OK;
}

static int broken_now;
static void broken(void *arg, void *ep, ucs_status status) {
	(void)arg, (void)ep, (void)status;
	broken_now = 1;
	puts("error");
	fflush(stdout);
}

static void need(void *to, size_t n) {
	for (size_t have = 0; have < n;) {
		ssize_t got = read(0, (char *)to + have, n - have);
		if (got <= 0)
			exit(0);
		have += (size_t)got;
	}
}

int main(void) {
	void *config, *context, *worker, *ep, *own;
	size_t own_length;
	if (library_load("") || ucp.ucp_config_read(NULL, NULL, &config))
		return 1;
	ucp_params params = {.mask = 1, .features = 0x40 | 0x10};
	ucp_worker_params wp = {.mask = 1};
	if (ucp.ucp_init_version(1, 13, &params, config, &context) ||
	    ucp.ucp_worker_create(context, &wp, &worker) || ucp.ucp_worker_get_address(worker, &own, &own_length))
		return 1;
	unsigned char names[DOORS][DOOR_NAME];
	print("doors", names, gate_doors(names) * DOOR_NAME);
	print("worker", own, own_length);
	for (unsigned id = FIRST; id <= LAST; id++)
		ucp.ucp_worker_set_am_recv_handler(worker,
		                                   &(ucp_am_handler_param){15, id, 1, got, (char *)NULL + id});
	uint32_t there[4];
	struct route r = {.number = 1};
	need(there, sizeof there);
	r.doors = there[0];
	r.tickets = there[1];
	r.any = there[3];
	unsigned char *address = malloc(there[2]);
	need(r.to, DOOR_NAME);
	need(r.door, r.doors * DOOR_NAME);
	need(r.ticket, r.tickets * TICKET);
	need(address, there[2]);
	gate_route(&r);
	ucp_ep_params p = {.mask = 1 | 2 | 4, .worker_address = address, .err_mode = 1, .err_callback = broken};
	if (ucp.ucp_ep_create(worker, &p, &ep))
		return 1;
	fcntl(0, F_SETFL, O_NONBLOCK);
	uint32_t h[4];
	size_t have = 0;
	unsigned char *m = NULL;
	for (;;) {
		ucp.ucp_worker_progress(worker);
		unsigned char *to = have < sizeof h ? (unsigned char *)h + have : m + have - sizeof h;
		size_t want = have < sizeof h ? sizeof h - have : sizeof h + h[2] + h[3] - have;
		ssize_t n = want ? read(0, to, want) : 0;
		if (n == 0 && want)
			return 0;
		if (n > 0)
			have += (size_t)n;
		if (have == sizeof h && !m)
			m = malloc(h[2] + h[3] + 1);
		if (have < sizeof h || have < sizeof h + h[2] + h[3])
			continue;
		if (!broken_now) {
			ucp_request_param rp = {.mask = 0x10, .flags = h[1]};
			request q = ucp.ucp_am_send_nbx(ep, h[0], m, h[2], m + h[2], h[3], &rp);
			while (q && !failed(q) && ucp.ucp_request_check_status(q) == IN_PROGRESS)
				ucp.ucp_worker_progress(worker);
			if (q && !failed(q))
				ucp.ucp_request_free(q);
		}
		free(m);
		m = NULL;
		have = 0;
	}
}
