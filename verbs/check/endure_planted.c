/* endure with a fault in the server's tenth round, which the variable PLANTED names: "lost" takes a
 * completion away, "repeated" gives it twice, "bytes" changes a byte that was written. The test of the
 * messages uses it. */
#include "check.h"

static int planted_poll(struct ibv_cq *from, int n, struct ibv_wc *wc);
#define ibv_poll_cq planted_poll
#include "endure.c"
#undef ibv_poll_cq

static int planted_poll(struct ibv_cq *from, int n, struct ibv_wc *wc) {
	static struct ibv_wc again;
	static int twice;
	const char *kind = getenv("PLANTED");
	int got;
	if (twice) {
		twice = 0;
		*wc = again;
		return 1;
	}
	got = ibv_poll_cq(from, n, wc);
	if (!kind || got != 1 || wc->status != IBV_WC_SUCCESS || wc->wr_id != 10 * STEPS + RECEIVE)
		return got;
	if (!strcmp(kind, "lost"))
		return 0;
	if (!strcmp(kind, "bytes"))
		m->slot[10 % SLOTS][77] ^= 1;
	again = *wc;
	twice = !strcmp(kind, "repeated");
	return got;
}
