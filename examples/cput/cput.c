/*
 * The smallest C client: an 8-byte put through a running engine.
 *
 *   gcc -std=c99 -Iinclude -o /tmp/cput examples/cput/cput.c
 *   nicless engine --socket $XDG_RUNTIME_DIR/nicless.sock &
 *   /tmp/cput $XDG_RUNTIME_DIR/nicless.sock
 *
 * With -rdmaxcel the program posts and polls the same put with RDMaxcel's functions.
 * With -n COUNT it puts COUNT times, one put after another. The rings have 64 entries,
 * which are used again and again.
 */
#include <nicless/nicless_verbs.h>
#include <nicless/rdmaxcel.h>

static struct nicless_client engine;
static struct nicless_region memory;
static struct nicless_cq cq;
static struct nicless_qp a, b;
static uint32_t key;

/* Makes memory, a key for it, and two queue pairs that are connected with each other. */
static int connect_pair(const char *socket) {
	struct nicless_qp_config f = {0, 0, 0, 0, NICLESS_RC, 6, 0, 0}; /* 64 blocks */
	uint32_t cqn;
	int error;
	if ((error = nicless_connect(&engine, socket, "cput")) ||
	    (error = nicless_region_open(&engine, 1 << 16, &memory)) ||
	    (error = nicless_alloc_pd(&engine, &f.pdn)) ||
	    (error = nicless_reg_mr(&engine, f.pdn, memory.mem, memory.size, NICLESS_FULL_ACCESS, &key)) ||
	    (error = nicless_cq_open(&engine, &memory, 6, 0, 0, &cq, &cqn)))
		return error;
	f.send_cqn = f.recv_cqn = cqn;
	if ((error = nicless_qp_open(&engine, &memory, &f, &a)) || (error = nicless_qp_open(&engine, &memory, &f, &b)) ||
	    (error = nicless_qp_connect(&engine, &a, b.qpn, engine.device.guid)))
		return error;
	return nicless_qp_connect(&engine, &b, a.qpn, engine.device.guid);
}

/*
 * Puts once. Returns 0 on success, the syndrome if the put failed, or -1 if the send
 * queue has no room. nicless_cq_reap also frees the blocks of the WQE. nicless_cq_poll
 * would not free them, and the 65th put would find no room.
 */
static int put(uint64_t *from, uint64_t *to) {
	struct nicless_sge sge = {(uintptr_t)from, 8, key};
	struct nicless_ends ends = {&a.sq, &a.rq}; /* user index 0, as in connect_pair */
	struct nicless_wr wr;
	struct nicless_wc wc;
	memset(&wr, 0, sizeof wr);
	wr.opcode = NICLESS_WRITE;
	wr.fm_ce_se = NICLESS_SIGNALED;
	wr.sge = &sge;
	wr.sges = 1;
	wr.raddr = (uintptr_t)to;
	wr.rkey = key;
	if (nicless_sq_post(&a.sq, &wr) != 0)
		return -1;
	nicless_sq_ring(&a.sq);
	while (nicless_cq_reap(&cq, &ends, 1, &wc, 1) == 0)
		;
	return wc.syndrome;
}

/*
 * Puts once with RDMaxcel's functions. These keep no state, so that the caller has to
 * count WQEs and CQEs. Both counts are i here, because only one put at a time is under
 * way.
 */
static int put_rdmaxcel(uint64_t *from, uint64_t *to, uint64_t i) {
	wqe_params_t w = {(uintptr_t)from, key, 8, i, true, NICLESS_WRITE, (uintptr_t)to, key, a.qpn, a.sq.ring, a.sq.record, 64};
	cqe_poll_params_t p = {cq.ring, 64, (uint32_t)i, 64, cq.record};
	int32_t bytes = -1;
	send_wqe(w);
	db_ring(a.reg, a.sq.ring + i % 64 * NICLESS_BLOCK);
	while (bytes == -1)
		cqe_poll(&bytes, p);
	return bytes; /* a WRITE returns no bytes; -2 is a failure */
}

/* Prints the WQE in the first block of the ring: that of the first put, or of the last that used it. */
static void print_wqe(void) {
	int i;
	for (i = 0; i < 48; i++)
		printf("%02x%s", a.sq.ring[i], i % 16 == 15 ? "\n" : " ");
}

int main(int argc, char **argv) {
	int rdmaxcel = 0, error = 0, arg = 1;
	uint64_t *from, *to, count = 1, i;
	for (; arg + 1 < argc; arg++)
		if (!strcmp(argv[arg], "-rdmaxcel"))
			rdmaxcel = 1;
		else if (!strcmp(argv[arg], "-n") && arg + 2 < argc && atoll(argv[arg + 1]) > 0)
			count = (uint64_t)atoll(argv[++arg]);
		else
			break;
	if (arg + 1 != argc) {
		fprintf(stderr, "usage: cput [-rdmaxcel] [-n COUNT] SOCKET\n");
		return 2;
	}
	if (connect_pair(argv[arg]) != 0) {
		fprintf(stderr, "cput: error: %s\n", engine.error);
		return 1;
	}
	from = (uint64_t *)nicless_take(&memory, 8);
	to = (uint64_t *)nicless_take(&memory, 8);
	for (i = 0; i < count && error == 0; i++) {
		*from = 0x0123456789abcdef + i;
		error = rdmaxcel ? put_rdmaxcel(from, to, i) : put(from, to);
		if (error != 0 || *to != *from) {
			fprintf(stderr, "cput: error: put %llu of %llu ended with %d, the target holds %016llx\n",
			        (unsigned long long)i + 1, (unsigned long long)count, error, (unsigned long long)*to);
			return 1;
		}
	}
	print_wqe();
	printf("put %016llx from %p to %p\n", (unsigned long long)*to, (void *)from, (void *)to);
	nicless_close(&engine);
	return 0;
}
