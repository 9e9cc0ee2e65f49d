#include "check.h"

#include <sched.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

__thread char doing[160] = "start";

enum { PATIENCE = 60 }; /* seconds */

void fail(const char *file, int line, const char *format, ...) {
	va_list args;
	char text[512];
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "%s:%d: pid %d: %s: %s\n", file, line, (int)getpid(), doing, text);
	_exit(1); /* exit would run handlers while other threads still work */
}

/* Returns eight bytes, of which each bit depends on all bits of seed and n (splitmix64). */
static uint64_t block(uint64_t seed, uint64_t n) {
	uint64_t v = seed + (n + 1) * 0x9e3779b97f4a7c15u;
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
	v = (v ^ v >> 27) * 0x94d049bb133111ebu;
	return v ^ v >> 31;
}

uint8_t pattern_byte(uint64_t seed, size_t index) {
	return (uint8_t)(block(seed, index / 8) >> index % 8 * 8);
}

void pattern_fill(uint8_t *to, uint64_t seed, size_t first, size_t n) {
	size_t i = 0;
	for (; i < n && (first + i) % 8; i++)
		to[i] = pattern_byte(seed, first + i);
	for (; n - i >= 8; i += 8) {
		uint64_t v = block(seed, (first + i) / 8);
		memcpy(to + i, &v, 8);
	}
	for (; i < n; i++)
		to[i] = pattern_byte(seed, first + i);
}

size_t pattern_differs(const uint8_t *at, uint64_t seed, size_t first, size_t n) {
	size_t i = 0;
	for (; i < n; i++) {
		if ((first + i) % 8 == 0)
			for (; n - i >= 8; i += 8) {
				uint64_t want = block(seed, (first + i) / 8);
				if (memcmp(at + i, &want, 8))
					break;
			}
		if (i < n && at[i] != pattern_byte(seed, first + i))
			return i;
	}
	return n;
}

void pattern_check(const uint8_t *at, uint64_t seed, size_t first, size_t n, const char *what) {
	size_t i = pattern_differs(at, seed, first, n);
	if (i < n)
		FAIL("%s: byte %zu of %zu is %#x, not %#x", what, first + i, first + n, at[i],
		     pattern_byte(seed, first + i));
}

int temporary_file(char name[], size_t room) {
	const char *dir = getenv("TMPDIR");
	int fd, n = snprintf(name, room, "%s/nicless-check-XXXXXX", dir ? dir : "/tmp");
	MUST(n > 0 && (size_t)n < room);
	fd = mkstemp(name);
	MUST(fd >= 0);
	return fd;
}

struct ibv_context *open_device(const char *name) {
	int i, n = 0;
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(&n);
	MUST(list);
	for (i = 0; i < n && !context; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name)) {
			context = ibv_open_device(list[i]);
			if (!context)
				FAIL("ibv_open_device %s: %s", ibv_get_device_name(list[i]), strerror(errno));
		}
	ibv_free_device_list(list);
	if (!context)
		FAIL("there is no device %s among %d", name ? name : "at all", n);
	return context;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void wait_completion(struct ibv_cq *cq, struct ibv_wc *wc) {
	double end = now() + PATIENCE;
	int n;
	memset(wc, 0, sizeof *wc);
	while ((n = ibv_poll_cq(cq, 1, wc)) == 0) {
		if (now() > end)
			FAIL("no completion in %d seconds", PATIENCE);
		sched_yield(); /* the other end may need this core */
	}
	if (n < 0)
		FAIL("ibv_poll_cq: %d", n);
}

void connect_with(struct ibv_qp *qp, const struct ibv_qp *peer) {
	struct ibv_qp_attr a = {0};
	struct ibv_port_attr port;
	DO(ibv_query_port(qp->context, 1, &port));
	a.ah_attr.dlid = port.lid; /* InfiniBand */
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer->qp_num;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	DO(ibv_query_gid(qp->context, 1, 0, &a.ah_attr.grh.dgid));
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}
