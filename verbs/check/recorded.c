/* recorded STEP [DIRECTORY]: programs that a library could disturb which looks on (nicless record). Each step
 * prints the same, and ends with the same status, with that library and without it.
 *
 *   stale     destroys a queue pair whose completions nobody has polled
 *   reset     resets such a queue pair
 *   turns     destroys queue pairs of a queue that another thread polls
 *   resize    resizes a queue that another thread polls
 *   share     polls a queue in two threads
 *   cancel    cancels threads that poll
 *   handler   exits in a handler of a signal, in many children
 *   closed    closes all descriptors, and opens a file in a directory
 *   limit     writes more than its limit of the size of files (RLIMIT_FSIZE)
 *   far       fills a send queue of 32768 blocks, and only the last WQE has a completion
 *   asked     asks where rings are (mlx5dv_init_obj), and uses them by functions
 *   own       reads the ring of a completion queue itself */
#include "check.h"

#include <endian.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 16, LENGTH = 64, FAR = 32768 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t *at;

/* Returns a queue pair that is connected to itself. */
static struct ibv_qp *make_qp(uint32_t depth) {
	struct ibv_qp_init_attr init = {NULL, cq, cq, NULL, {depth, 16, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	struct ibv_qp *q;
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	MUST((q = ibv_create_qp(pd, &init)));
	DO(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	connect_with(q, q);
	return q;
}

static void make(int entries, uint32_t depth) {
	context = open_device(NULL);
	MUST((pd = ibv_alloc_pd(context)));
	MUST((channel = ibv_create_comp_channel(context)));
	MUST((cq = ibv_create_cq(context, entries, NULL, channel, 0)));
	MUST((at = calloc(1, SIZE)));
	MUST((mr = ibv_reg_mr(pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	                                            IBV_ACCESS_REMOTE_READ)));
	qp = make_qp(depth);
}

static void post_kind(struct ibv_qp *q, enum ibv_wr_opcode kind, unsigned int flags) {
	struct ibv_sge s = {(uintptr_t)at, LENGTH, mr->lkey};
	struct ibv_send_wr w = {0}, *bad;
	w.sg_list = &s;
	w.num_sge = 1;
	w.opcode = kind;
	w.send_flags = flags;
	w.wr.rdma.remote_addr = (uintptr_t)at + SIZE / 2;
	w.wr.rdma.rkey = mr->rkey;
	DO(ibv_post_send(q, &w, &bad));
}

static void post(struct ibv_qp *q, unsigned int flags) { post_kind(q, IBV_WR_RDMA_WRITE, flags); }

static void one(void) {
	struct ibv_wc wc;
	post(qp, IBV_SEND_SIGNALED);
	wait_completion(cq, &wc);
	SAME(wc.status, IBV_WC_SUCCESS);
	SAME(wc.qp_num, qp->qp_num);
}

/* Lets a queue pair write a completion, which nobody polls. */
static void leave(struct ibv_qp *q) {
	struct ibv_cq *of;
	void *user;
	DO(ibv_req_notify_cq(cq, 0));
	post(q, IBV_SEND_SIGNALED);
	DO(ibv_get_cq_event(channel, &of, &user));
	ibv_ack_cq_events(of, 1);
}

/* Those of another queue pair are between them, and stay. */
static void stale(void) {
	struct ibv_qp *other;
	struct ibv_wc wc;
	make(64, 16);
	for (int k = 0; k < 20; k++) {
		other = make_qp(16);
		for (int i = 0; i < 4; i++) {
			leave(other);
			leave(qp);
		}
		DO(ibv_destroy_qp(other));
		for (int i = 0; i < 4; i++) {
			SAME(ibv_poll_cq(cq, 1, &wc), 1);
			SAME(wc.qp_num, qp->qp_num);
		}
		SAME(ibv_poll_cq(cq, 1, &wc), 0);
		one();
	}
}

static void reset(void) {
	struct ibv_qp_attr a = {0};
	struct ibv_wc wc;
	make(64, 16);
	for (int i = 0; i < 4; i++)
		leave(qp);
	a.qp_state = IBV_QPS_RESET;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE));
	SAME(ibv_poll_cq(cq, 1, &wc), 0);
	qp = make_qp(16);
	one();
}

static long taken; /* completions */
static int stop;

static void *poller(void *unused) {
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(cq, 1, &wc);
		MUST(n >= 0);
		if (n)
			SAME(wc.status, IBV_WC_SUCCESS);
		else
			sched_yield();
		__atomic_add_fetch(&taken, n, __ATOMIC_RELEASE);
	}
	return unused;
}

static void *turn(void *unused) {
	for (int i = 0; i < 100; i++) {
		struct ibv_qp *q = make_qp(16);
		for (int k = 0; k < 8; k++)
			post(q, IBV_SEND_SIGNALED);
		DO(ibv_destroy_qp(q));
	}
	return unused;
}

static void start(pthread_t *t, int n, void *(*f)(void *)) {
	for (int i = 0; i < n; i++)
		DO(pthread_create(t + i, NULL, f, NULL));
}

static void join(pthread_t *t, int n) {
	for (int i = 0; i < n; i++)
		DO(pthread_join(t[i], NULL));
}

static void turns(void) {
	pthread_t t[3];
	make(4096, 16);
	start(t, 1, poller);
	start(t + 1, 2, turn);
	join(t + 1, 2);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	join(t, 1);
}

/* Posts n WQEs, of which at most 8 have no completion yet, to pollers. */
static void feed(long n, void (*between)(void)) {
	for (long i = 0; i < n; i++) {
		while (i - __atomic_load_n(&taken, __ATOMIC_ACQUIRE) >= 8)
			sched_yield();
		post(qp, IBV_SEND_SIGNALED);
		if (i % 8 == 7 && between)
			between();
	}
	while (__atomic_load_n(&taken, __ATOMIC_ACQUIRE) < n)
		sched_yield();
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
}

static void share(void) {
	pthread_t t[2];
	make(16, 16);
	start(t, 2, poller);
	feed(20000, NULL);
	join(t, 2);
	SAME(taken, 20000);
}

static void other_size(void) {
	DO(ibv_resize_cq(cq, cq->cqe < 100 ? 20000 : 64));
}

static void resize(void) {
	pthread_t t[1];
	make(64, 16);
	start(t, 1, poller);
	feed(800, other_size);
	join(t, 1);
	SAME(taken, 800);
}

/* Only polls may be cancelled: a post that ends half way is a mistake of the program. */
static void *ones(void *rounds) {
	for (;; __atomic_add_fetch((long *)rounds, 1, __ATOMIC_RELEASE)) {
		struct ibv_wc wc;
		DO(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
		post(qp, IBV_SEND_SIGNALED);
		DO(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL));
		wait_completion(cq, &wc);
		pthread_testcancel();
	}
	return NULL;
}

static void cancel(void) {
	make(64, 16);
	for (int i = 0; i < 100; i++) {
		long rounds = 0;
		pthread_t t;
		DO(pthread_create(&t, NULL, ones, &rounds));
		while (__atomic_load_n(&rounds, __ATOMIC_ACQUIRE) < 10)
			sched_yield();
		DO(pthread_cancel(t));
		DO(pthread_join(t, NULL));
		for (struct ibv_wc wc; ibv_poll_cq(cq, 1, &wc) > 0;)
			continue;
		one();
	}
}

static void leave_program(int unused) {
	(void)unused;
	exit(7);
}

/* A signal comes at any place of the library. */
static void handler(void) {
	for (int i = 0; i < 20; i++) {
		int status;
		pid_t child = fork();
		MUST(child >= 0);
		if (!child) {
			struct itimerval after = {{0, 0}, {0, 1000 + i * 331}};
			make(64, 16);
			MUST(signal(SIGALRM, leave_program) != SIG_ERR);
			DO(setitimer(ITIMER_REAL, &after, NULL));
			for (;;)
				one();
		}
		SAME(waitpid(child, &status, 0), child);
		MUST(WIFEXITED(status));
		SAME(WEXITSTATUS(status), 7);
	}
}

/* The first free numbers are those of the descriptors that were closed. */
static void closed(const char *dir) {
	char name[4096];
	struct stat st;
	int fd, first = -1, last = -1;
	make(64, 16);
	one();
	for (int i = 3; i < 4096; i++) {
		char link[64];
		ssize_t n;
		snprintf(link, sizeof link, "/proc/self/fd/%d", i);
		n = readlink(link, name, sizeof name - 1);
		name[n < 0 ? 0 : n] = 0;
		if (n > 4 && !strcmp(name + n - 4, ".raw")) {
			first = first < 0 ? i : first;
			last = i;
		}
	}
	MUST(snprintf(name, sizeof name, "%s/mine", dir) < (int)sizeof name);
	MUST((fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600)) >= 0);
	if (first >= 0)
		for (int i = first; i <= last; i++)
			SAME(dup2(fd, i), i);
	for (int i = 0; i < 50; i++)
		one();
	DO(fstat(fd, &st));
	SAME(st.st_size, 0);
}

static void limit(void) {
	struct rlimit r = {50000, 50000};
	DO(setrlimit(RLIMIT_FSIZE, &r));
	make(64, 16);
	for (int i = 0; i < 2000; i++)
		one();
}

/* Each WQE has one block, because the queue pair has no operations that need more. */
static void far(void) {
	struct ibv_qp_init_attr_ex init = {0};
	struct ibv_qp_attr a = {0};
	struct ibv_wc wc;
	make(64, 16);
	init.send_cq = init.recv_cq = cq;
	init.cap.max_send_wr = FAR;
	init.cap.max_send_sge = init.cap.max_recv_sge = init.cap.max_recv_wr = 1;
	init.qp_type = IBV_QPT_RC;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.pd = pd;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
	MUST((qp = ibv_create_qp_ex(context, &init)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	DO(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	connect_with(qp, qp);
	for (int i = 0; i < 2; i++) {
		for (int k = 1; k < FAR; k++)
			post_kind(qp, IBV_WR_RDMA_WRITE, 0);
		memset(at + SIZE / 2, 7 + i, LENGTH); /* if a READ is replayed without its bytes, it brings others */
		post_kind(qp, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED);
		wait_completion(cq, &wc);
		SAME(wc.status, IBV_WC_SUCCESS);
	}
}

static void ask(struct mlx5dv_cq *c, struct mlx5dv_qp *q) {
	struct mlx5dv_obj obj = {0};
	obj.cq.in = cq;
	obj.cq.out = c;
	obj.qp.in = qp;
	obj.qp.out = q;
	DO(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP));
}

static void asked(void) {
	struct mlx5dv_cq c = {0};
	struct mlx5dv_qp q = {0};
	make(64, 16);
	for (int i = 0; i < 110; i++) {
		if (i == 10)
			ask(&c, &q);
		one();
	}
}

static void own(void) {
	struct mlx5dv_cq c = {0};
	struct mlx5dv_qp q = {0};
	make(8, 16); /* the queue is filled twice */
	ask(&c, &q);
	for (uint32_t i = 0; i < 16; i++) {
		struct mlx5_cqe64 *e = (void *)((char *)c.buf + (size_t)(i % c.cqe_cnt) * c.cqe_size);
		post(qp, IBV_SEND_SIGNALED);
		while (mlx5dv_get_cqe_opcode(e) == MLX5_CQE_INVALID ||
		       mlx5dv_get_cqe_owner(e) != (i / c.cqe_cnt & 1)) {
			sched_yield();
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
		}
		SAME(mlx5dv_get_cqe_opcode(e), MLX5_CQE_REQ);
		__atomic_store_n(c.dbrec, htobe32((i + 1) & 0xffffff), __ATOMIC_RELEASE);
	}
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		void (*run)(void);
	} steps[] = {{"stale", stale}, {"reset", reset}, {"turns", turns}, {"resize", resize},
		     {"share", share}, {"cancel", cancel}, {"handler", handler}, {"limit", limit},
		     {"far", far}, {"asked", asked}, {"own", own}};
	const char *name = argc > 1 ? argv[1] : "";
	alarm(120); /* instead of waiting for ever */
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (!strcmp(name, steps[i].name)) {
			steps[i].run();
			printf("recorded: %s: ok\n", name);
			return 0;
		}
	if (strcmp(name, "closed") || argc != 3)
		FAIL("there is no step %s", name);
	closed(argv[2]);
	printf("recorded: closed: ok\n");
	return 0;
}
