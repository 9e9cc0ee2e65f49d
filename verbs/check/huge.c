/* huge: queues that a program's own allocator (a parent domain's) puts into a huge page. The huge
 * page becomes shared memory with all that is in it, also while a thread stores to it. A huge page
 * of which a part is registered already stays, and queues in it are refused. */
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>

enum { HUGE = 2 * 1024 * 1024, ROOM = 256 * 1024, DEPTH = 16 };

/* Where the allocator gets memory from. */
struct pool {
	uint8_t *page;
	size_t next;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static volatile int stop;

static void *allocate(struct ibv_pd *domain, void *pool, size_t size, size_t alignment, uint64_t type) {
	struct pool *p = pool;
	size_t at = (p->next + alignment - 1) & ~(alignment - 1);
	(void)domain;
	(void)type;
	MUST(at + size <= ROOM);
	p->next = at + size;
	return p->page + at;
}

static void release(struct ibv_pd *domain, void *pool, void *at, uint64_t type) {
	(void)domain;
	(void)pool;
	(void)at;
	(void)type;
}

static uint8_t *take(void) {
	uint8_t *page = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
	                     0);
	MUST(page != MAP_FAILED);
	return page;
}

static struct ibv_pd *domain_of(struct pool *p) {
	struct ibv_parent_domain_init_attr a = {0};
	struct ibv_pd *domain;
	a.pd = pd;
	a.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	a.alloc = allocate;
	a.free = release;
	a.pd_context = p;
	MUST((domain = ibv_alloc_parent_domain(context, &a)));
	return domain;
}

static struct ibv_qp *create(struct ibv_pd *domain, struct ibv_cq *cq) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {DEPTH, DEPTH, 1, 1, 0}, IBV_QPT_RC, 0};
	init.send_cq = init.recv_cq = cq;
	errno = 0;
	return ibv_create_qp(domain, &init);
}

/* Counts in a word of the huge page, and checks that no store is lost. */
static void *count(void *at) {
	volatile uint64_t *word = at;
	uint64_t n;
	for (n = 1; !stop; n++) {
		*word = n;
		MUST(*word == n);
	}
	return NULL;
}

static void move(void) {
	struct pool p = {take(), 0};
	struct ibv_pd *domain = domain_of(&p);
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_attr a = {0};
	struct ibv_send_wr wr = {0}, *bad;
	struct ibv_sge piece;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	pthread_t thread;
	uint8_t *data = p.page + HUGE / 2;
	strcpy(doing, "move");
	pattern_fill(p.page + ROOM, 1, 0, HUGE - ROOM - 4096);
	DO(pthread_create(&thread, NULL, count, p.page + HUGE - 8));
	MUST((cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
	MUST((qp = create(domain, cq)));
	stop = 1;
	DO(pthread_join(thread, NULL));
	pattern_check(p.page + ROOM, 1, 0, HUGE - ROOM - 4096, "the rest of the huge page");
	MUST(p.next > 0);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	connect_with(qp, qp);
	MUST((mr = ibv_reg_mr(pd, data, 2 * 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	pattern_fill(data, 2, 0, 4096);
	piece.addr = (uintptr_t)data;
	piece.length = 4096;
	piece.lkey = mr->lkey;
	wr.sg_list = &piece;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)data + 4096;
	wr.wr.rdma.rkey = mr->rkey;
	DO(ibv_post_send(qp, &wr, &bad));
	wait_completion(cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	pattern_check(data + 4096, 2, 0, 4096, "what was written");
	DO(ibv_destroy_qp(qp));
	DO(ibv_destroy_cq(cq));
	DO(ibv_dereg_mr(mr));
	DO(ibv_dealloc_pd(domain));
	DO(munmap(p.page, HUGE));
}

static void stay(void) {
	struct pool p = {take(), 0};
	struct ibv_pd *domain = domain_of(&p);
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	strcpy(doing, "stay");
	MUST((mr = ibv_reg_mr(pd, p.page + HUGE / 2, 4096, IBV_ACCESS_LOCAL_WRITE)));
	MUST((cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
	MUST(!create(domain, cq));
	SAME(errno, EFAULT);
	DO(ibv_dereg_mr(mr));
	DO(ibv_destroy_cq(cq));
	DO(ibv_dealloc_pd(domain));
	DO(munmap(p.page, HUGE));
}

int main(void) {
	context = open_device(NULL);
	MUST((pd = ibv_alloc_pd(context)));
	move();
	stay();
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("huge: queues in huge pages: ok\n");
	return 0;
}
