/* life MODE [ARGUMENT]: contexts, processes and programs that start and end.
 *
 *   twice             opens the device twice, and uses both
 *   fork              forks while it has objects; the child opens the device for itself
 *   exec PROGRAM      forks while it has objects, and executes a program in the child
 *   replace PROGRAM   executes a program in its own process while it has objects
 *   beside            has rings and doorbell records in the same pages, in memory of its own
 *   hold              makes objects, says so, and waits to be killed */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 16 };

struct objects {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *at;
};

static void make_in(struct objects *o);

static void make(struct objects *o) {
	o->context = open_device(NULL);
	MUST((o->pd = ibv_alloc_pd(o->context)));
	make_in(o);
}

static void make_in(struct objects *o) {
	struct ibv_qp_init_attr init = {NULL, NULL, NULL, NULL, {8, 8, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	MUST((o->cq = ibv_create_cq(o->context, 16, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = o->cq;
	MUST((o->qp = ibv_create_qp(o->pd, &init)));
	MUST((o->at = malloc(SIZE)));
	MUST((o->mr = ibv_reg_mr(o->pd, o->at, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	DO(ibv_modify_qp(o->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR; /* the queue pair is connected to itself */
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = o->qp->qp_num;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	DO(ibv_query_gid(o->context, 1, 0, &a.ah_attr.grh.dgid));
	DO(ibv_modify_qp(o->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	DO(ibv_modify_qp(o->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* One write, from the first half of the memory to the second. */
static void use(struct objects *o, uint64_t seed) {
	struct ibv_sge sge = {(uintptr_t)o->at, SIZE / 2, o->mr->lkey};
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	memset(&wr, 0, sizeof wr);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)o->at + SIZE / 2;
	wr.wr.rdma.rkey = o->mr->rkey;
	pattern_fill(o->at, seed, 0, SIZE / 2);
	DO(ibv_post_send(o->qp, &wr, &bad));
	wait_completion(o->cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	pattern_check(o->at + SIZE / 2, seed, 0, SIZE / 2, "what was written");
}

static void destroy(struct objects *o) {
	DO(ibv_dereg_mr(o->mr));
	DO(ibv_destroy_qp(o->qp));
	DO(ibv_destroy_cq(o->cq));
	DO(ibv_dealloc_pd(o->pd));
	DO(ibv_close_device(o->context));
	free(o->at);
}

/* An allocator that starts rings inside a page and puts doorbell records right after them. */
static void *next_bytes(struct ibv_pd *pd, void *arena, size_t size, size_t align, uint64_t type) {
	static size_t used;
	(void)pd;
	(void)type;
	(void)align; /* next_bytes aligns to 64 bytes, which the device needs */
	used = (used + 63) & ~(size_t)63;
	if (size > 64)
		used = ((used + 4095) & ~(size_t)4095) + 2048;
	used += size;
	MUST(used <= 1 << 20);
	return (uint8_t *)arena + used - size;
}

static void keep(struct ibv_pd *pd, void *arena, void *at, uint64_t type) {
	(void)pd;
	(void)arena;
	(void)at;
	(void)type;
}

/* Uses a parent domain with the allocator next_bytes. */
static void beside(void) {
	struct ibv_parent_domain_init_attr a = {0};
	struct objects o;
	struct ibv_pd *pd;
	o.context = open_device(NULL);
	MUST((pd = ibv_alloc_pd(o.context)));
	a.pd = pd;
	a.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	a.alloc = next_bytes;
	a.free = keep;
	DO(posix_memalign(&a.pd_context, 4096, 1 << 20));
	MUST((o.pd = ibv_alloc_parent_domain(o.context, &a)));
	make_in(&o);
	use(&o, 1);
	use(&o, 2);
	DO(ibv_dereg_mr(o.mr));
	DO(ibv_destroy_qp(o.qp));
	DO(ibv_destroy_cq(o.cq));
	DO(ibv_dealloc_pd(o.pd));
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(o.context));
}

static void child_ended(pid_t child) {
	int status;
	MUST(waitpid(child, &status, 0) == child);
	if (status)
		FAIL("the child ended with status %#x", (unsigned)status);
}

static void twice(void) {
	struct objects a, b;
	make(&a);
	make(&b);
	MUST(a.context->cmd_fd != b.context->cmd_fd);
	use(&a, 1);
	use(&b, 2);
	destroy(&a);
	use(&b, 3);
	destroy(&b);
}

static void forks(void) {
	struct objects o, own;
	struct ibv_pd *pd;
	pid_t child;
	make(&o);
	use(&o, 1);
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		strcpy(doing, "the child");
		MUST((pd = ibv_alloc_pd(o.context))); /* the context is its parent's too */
		DO(ibv_dealloc_pd(pd));
		MUST(!ibv_reg_mr(o.pd, (void *)(uintptr_t)4096, 4096, 0));
		make(&own);
		use(&own, 2);
		destroy(&own);
		_exit(0);
	}
	child_ended(child);
	use(&o, 3);
	destroy(&o);
}

static void executes(char **argv) {
	struct objects o;
	pid_t child;
	make(&o);
	use(&o, 1);
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		execvp(argv[0], argv);
		FAIL("%s: %s", argv[0], strerror(errno));
	}
	child_ended(child);
	use(&o, 2);
	destroy(&o);
}

int main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";
	struct objects o;
	snprintf(doing, sizeof doing, "%s", mode);
	if (!strcmp(mode, "twice")) {
		twice();
	} else if (!strcmp(mode, "beside")) {
		beside();
	} else if (!strcmp(mode, "fork")) {
		forks();
	} else if (!strcmp(mode, "exec") && argc > 2) {
		executes(argv + 2);
	} else if (!strcmp(mode, "replace") && argc > 2) {
		make(&o);
		use(&o, 1);
		execvp(argv[2], argv + 2);
		FAIL("%s: %s", argv[2], strerror(errno));
	} else if (!strcmp(mode, "hold")) {
		make(&o);
		use(&o, 1);
		puts("life: holds");
		fflush(stdout);
		for (;;)
			pause();
	} else {
		fprintf(stderr, "usage: life twice|beside|fork|exec PROGRAM|replace PROGRAM|hold\n");
		return 2;
	}
	printf("life: %s: ok\n", mode);
	return 0;
}
