/* packed: queues whose rings a program's own allocator packs: each begins in the page in which the
 * one before it ends, and lies between two that are in use. NIC and driver wish nothing but the alignment. */
#include "check.h"

enum { DEPTH = 16, PAIRS = 5, ROOM = 1 << 20, EACH = 512, ROUNDS = 40 };

/* The arena of the allocator. Its pages are the program's own until a queue is in them. */
static struct {
	uint8_t *at;
	size_t used;
	struct hole { uint8_t *at; size_t size; } holes[64];
	int count;
} arena;

static struct ibv_context *context;
static struct ibv_pd *pd, *domain;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t *data;

/* Returns the first hole that is large enough, or the next bytes of the arena. */
static void *allocate(struct ibv_pd *of, void *context_of_pd, size_t size, size_t alignment, uint64_t type) {
	int i;
	(void)of, (void)context_of_pd, (void)type, (void)alignment;
	size = (size + 63) & ~(size_t)63;
	for (i = 0; i < arena.count; i++)
		if (arena.holes[i].size == size) {
			uint8_t *at = arena.holes[i].at;
			arena.holes[i] = arena.holes[--arena.count];
			return at;
		}
	MUST(arena.used + size <= ROOM);
	arena.used += size;
	return arena.at + arena.used - size;
}

static size_t sizes[ROOM / 64]; /* of what was allocated, by place */

static void *allocate_and_note(struct ibv_pd *of, void *my, size_t size, size_t alignment, uint64_t type) {
	uint8_t *at = allocate(of, my, size, alignment, type);
	sizes[(at - arena.at) / 64] = (size + 63) & ~(size_t)63;
	return at;
}

static void release(struct ibv_pd *of, void *my, void *at, uint64_t type) {
	struct hole *h = &arena.holes[arena.count++];
	(void)of, (void)my, (void)type;
	MUST(arena.count <= 64);
	h->at = at;
	h->size = sizes[((uint8_t *)at - arena.at) / 64];
}

static struct ibv_qp *connected(void) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {DEPTH, DEPTH, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	struct ibv_qp *qp;
	init.send_cq = init.recv_cq = cq;
	MUST((qp = ibv_create_qp(domain, &init)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	connect_with(qp, qp);
	return qp;
}

/* Writes from one place of data to another by a queue pair, more often than its ring has room for. */
static void use(struct ibv_qp *qp, unsigned seed) {
	struct ibv_send_wr wr = {0}, *bad;
	struct ibv_sge piece;
	struct ibv_wc wc;
	int i;
	piece.addr = (uintptr_t)data;
	piece.length = EACH;
	piece.lkey = mr->lkey;
	wr.sg_list = &piece;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)data + EACH;
	wr.wr.rdma.rkey = mr->rkey;
	for (i = 0; i < ROUNDS; i++) {
		pattern_fill(data, seed, (unsigned)i, EACH);
		DO(ibv_post_send(qp, &wr, &bad));
		wait_completion(cq, &wc);
		SAME(wc.status, IBV_WC_SUCCESS);
		SAME(wc.qp_num, qp->qp_num);
		pattern_check(data + EACH, seed, (unsigned)i, EACH, "what was written");
	}
}

int main(void) {
	struct ibv_parent_domain_init_attr a = {0};
	struct ibv_qp *pair[PAIRS];
	int i, round;
	context = open_device(NULL);
	MUST((pd = ibv_alloc_pd(context)));
	DO(posix_memalign((void **)&arena.at, 4096, ROOM));
	memset(arena.at, 0x5a, ROOM);
	arena.used = 64 * 5; /* not the begin of a page */
	a.pd = pd;
	a.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	a.alloc = allocate_and_note;
	a.free = release;
	MUST((domain = ibv_alloc_parent_domain(context, &a)));
	DO(posix_memalign((void **)&data, 4096, 4096));
	MUST((mr = ibv_reg_mr(pd, data, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	MUST((cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
	strcpy(doing, "one behind the other");
	for (i = 0; i < PAIRS; i++)
		pair[i] = connected();
	for (i = 0; i < PAIRS; i++)
		use(pair[i], (unsigned)i);
	strcpy(doing, "in the holes");
	for (round = 0; round < 3 * PAIRS; round++) {
		i = round * 3 % PAIRS; /* its neighbours live on */
		DO(ibv_destroy_qp(pair[i]));
		pair[i] = connected();
		use(pair[i], (unsigned)round);
		use(pair[(i + 1) % PAIRS], (unsigned)round);
	}
	MUST(arena.used < (size_t)PAIRS * 8192); /* so the rings were not spread over pages of their own */
	for (i = 0; i < PAIRS; i++)
		DO(ibv_destroy_qp(pair[i]));
	DO(ibv_destroy_cq(cq));
	DO(ibv_dereg_mr(mr));
	DO(ibv_dealloc_pd(domain));
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("packed: rings that share pages: ok\n");
	return 0;
}
