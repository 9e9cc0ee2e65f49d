/*
 * A C client that connects by a name. `names SOCKET dial NAME` or `names SOCKET listen NAME` offers
 * memory, and prints what the other end offers and has written. The Go tests of
 * this folder run it. `names SOCKET listen-all NAME` listens for programs of all users.
 * A number of milliseconds may follow, which it waits at most.
 */
#include "../nicless/nicless_names.h"

static struct nicless_client c;

#define DO(call) ((call) == 0 ? (void)0 : refused(#call, __LINE__))

static void refused(const char *what, int line) {
	fprintf(stderr, "names: line %d: %s: %s\n", line, what, c.error);
	exit(1);
}

int main(int argc, char **argv) {
	struct nicless_region queues, data;
	struct nicless_qp_config f;
	struct nicless_qp qp;
	struct nicless_peer offer, peer;
	struct nicless_cq cq;
	volatile uint64_t *mine;
	uint32_t pdn, key, cqn, most;
	if (argc < 4)
		return 2;
	most = argc > 4 ? (uint32_t)atoi(argv[4]) : 60000;
	DO(nicless_connect(&c, argv[1], "include/check"));
	DO(nicless_region_open(&c, 1 << 20, &queues));
	DO(nicless_region_open(&c, 4096, &data));
	DO(nicless_alloc_pd(&c, &pdn));
	DO(nicless_reg_mr(&c, pdn, data.mem, data.size, NICLESS_FULL_ACCESS, &key));
	DO(nicless_cq_open(&c, &queues, 6, 0, 0, &cq, &cqn));
	memset(&f, 0, sizeof f);
	f.pdn = pdn;
	f.send_cqn = f.recv_cqn = cqn;
	f.log_sq = f.log_rq = 3;
	DO(nicless_qp_open(&c, &queues, &f, &qp));
	memset(&offer, 0, sizeof offer);
	strcpy(offer.name, "m");
	offer.addr = (uint64_t)(uintptr_t)data.mem;
	offer.length = data.size;
	offer.rkey = key;
	if (strcmp(argv[2], "dial") == 0) {
		DO(nicless_dial_name(&c, argv[3], &qp, &offer, most, &peer));
	} else {
		DO(nicless_listen_name(&c, argv[3], strcmp(argv[2], "listen-all") == 0));
		printf("listens\n");
		fflush(stdout);
		DO(nicless_accept_name(&c, argv[3], &qp, &offer, most, &peer));
	}
	printf("peer %s of %llu bytes\n", peer.name, (unsigned long long)peer.length);
	fflush(stdout);
	for (mine = (volatile uint64_t *)data.mem; *mine == 0;) /* the other end writes */
		nicless_nap();
	printf("got %llx\n", (unsigned long long)*mine);
	nicless_close(&c);
	return 0;
}
