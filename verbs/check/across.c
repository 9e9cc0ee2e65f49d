/* across: two hosts move data in every way that both of their devices have, and check every byte.
 * The devices may be of different kinds.
 *
 *   across DEVICE GID PORT losses|exact [ADDRESS]
 *
 * The program with an address posts, the other one is the server. GID is the index of the GID. If the
 * network loses packets, there is RC only, and no request that must fail. */
#include "steps.h"
#include "talk.h"

#include <signal.h>

static const size_t sizes[] = {1, 7, 64, 100, 1024, 1025, 4096, 4097, 20000, 300001};
enum { LARGEST = 300001 };

int main(int argc, char **argv) {
	static const struct link_config rc = {IBV_QPT_RC, 0, 0, 7, 0, 0, 0}, srq = {IBV_QPT_RC, 1, 0, 7, 0, 0, 0},
	                                uc = {IBV_QPT_UC, 0, 0, 7, 0, 0, 0}, ud = {IBV_QPT_UD, 0, 0, 7, 0, 0, 0};
	struct end e;
	struct links l;
	struct memory m;
	struct ibv_mr *mr;
	size_t i;
	int losses, n;
	if (argc < 5 || argc > 6 || ((losses = !strcmp(argv[4], "losses")) == 0 && strcmp(argv[4], "exact"))) {
		fprintf(stderr, "usage: across DEVICE GID PORT losses|exact [ADDRESS]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	end_open(&e, argc == 6 ? talk_connect(argv[5], argv[3]) : talk_accept(talk_listen(argv[3])), argc == 6,
	         argv[1], (uint8_t)atoi(argv[2]));
	e.apart = e.mixed = 1;
	e.lossy = losses;
	memset(&l, 0, sizeof l);
	l.rc = link_open(&e, &rc);
	l.srq = link_open(&e, &srq);
	if (!losses) {
		l.uc = link_open(&e, &uc);
		l.ud = link_open(&e, &ud);
	}
	memory_take(&m, MEMORY_MALLOC, transfer_room(LARGEST));
	MUST((mr = ibv_reg_mr(e.pd, m.at, m.size,
	                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                          IBV_ACCESS_REMOTE_ATOMIC)));
	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		snprintf(doing, sizeof doing, "%s, %zu bytes", e.active ? "active" : "passive", sizes[i]);
		transfer_all(&e, &l, &m, mr, sizes[i]);
	}
	atomics(&e, &l.rc, &m, mr);
	link_close(&l.rc);
	link_close(&l.srq);
	if (!losses) {
		link_close(&l.uc);
		link_close(&l.ud);
	}
	DO(ibv_dereg_mr(mr));
	memory_give(&m);
	snprintf(doing, sizeof doing, "%s, send with invalidate", e.active ? "active" : "passive");
	/* Soft-RoCE lets writes reach the whole region of a window, so no other step about windows. */
	invalidations(&e);
	n = losses ? 0 : errors(&e); /* not every device sends a lost NAK again */
	printf("across: %zu sizes, atomics, send with invalidate, %d errors, MTU %d, GID %02x%02x..%02x: ok\n",
	       sizeof sizes / sizeof *sizes, n, 128 << e.mtu, e.gid.raw[0], e.gid.raw[1], e.gid.raw[15]);
	end_close(&e);
	return 0;
}
