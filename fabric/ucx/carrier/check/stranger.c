/*
 * For the tests in Go: a program that speaks UCX, and is not nicless. It connects to an address, and
 * sends what it reads as active messages: id:32 | flags:32 | header length:32 | data length:32,
 * in host order, header, data. It prints the headers of all messages that come: id and hexadecimal
 * digits; and "error" when the connection is lost.
 */
#define _GNU_SOURCE
#include "../abi.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = 21, LAST = 23 };

static ucs_status got(void *arg, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param *p) {
	(void)data, (void)length, (void)p;
	printf("%td ", (char *)arg - (char *)NULL);
	for (size_t i = 0; i < header_length; i++)
		printf("%02x", ((const unsigned char *)header)[i]);
	puts("");
	fflush(stdout);
	return OK;
}

static int broken_now;
static void broken(void *arg, void *ep, ucs_status status) {
	(void)arg, (void)ep, (void)status;
	broken_now = 1;
	puts("error");
	fflush(stdout);
}

int main(int argc, char **argv) {
	void *config, *context, *worker, *ep;
	struct addrinfo *a;
	if (argc != 3 || library_load("") || getaddrinfo(argv[1], argv[2], NULL, &a) || ucp.ucp_config_read(NULL, NULL, &config))
		return 1;
	ucp_params params = {.mask = 1, .features = 0x40 | 0x10};
	ucp_worker_params wp = {.mask = 1};
	if (ucp.ucp_init_version(1, 13, &params, config, &context) || ucp.ucp_worker_create(context, &wp, &worker))
		return 1;
	for (unsigned id = FIRST; id <= LAST; id++)
		ucp.ucp_worker_set_am_recv_handler(worker, &(ucp_am_handler_param){15, id, 1, got, (char *)NULL + id});
	ucp_ep_params p = {.mask = 2 | 4 | 0x10 | 0x20, .err_mode = 1, .err_callback = broken, .flags = 1, .address = a->ai_addr, .address_length = a->ai_addrlen};
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
			request r = ucp.ucp_am_send_nbx(ep, h[0], m, h[2], m + h[2], h[3], &rp);
			while (r && !failed(r) && ucp.ucp_request_check_status(r) == IN_PROGRESS)
				ucp.ucp_worker_progress(worker);
			if (r && !failed(r))
				ucp.ucp_request_free(r);
		}
		free(m);
		m = NULL;
		have = 0;
	}
}
