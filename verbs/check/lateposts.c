/* lateposts [unguarded]: posts as a GPU does whose stores no fence orders. A thread stores the words of
 * WQEs, the doorbell record and the register one by one in random order, often the record first, and other
 * threads of the machine run between two stores. Under nicless run --guard-posts each WQE is executed once,
 * and whole. With "unguarded", the program shows that the device otherwise executes what is there.
 *
 * The device explains a WQE that is late for half a second, and executes one after a second that lacks one
 * word of data. A GPU's stores never take so long; those of a thread that gets no core can. Then the program
 * says "held up", and nothing is known. */
#include "check.h"

#include <arpa/inet.h>
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 64, ROUNDS = 600, MOST = 8, SLOT = 64, SLOTS = 64, WORDS = 24, BLOCK = 16 };

/* One store of 4 bytes; the register takes 8. */
struct store {
	volatile uint32_t *to;
	uint32_t value;
};

static struct ibv_cq *cq;
static struct ibv_qp *qp, *peer;
static struct mlx5dv_qp q;
static struct mlx5dv_cq c;
static struct ibv_mr *mr;
static uint8_t far[SLOTS * SLOT], want[sizeof far];
static uint64_t seed = 1;
static uint32_t done; /* completions, stored by the main thread */

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t draw(uint32_t below) {
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static struct ibv_qp *make(struct ibv_pd *pd) {
	struct ibv_qp_init_attr init = {NULL, cq, cq, NULL, {DEPTH, 1, 1, 1, 0}, IBV_QPT_RC, 0};
	struct ibv_qp_attr a = {0};
	struct ibv_qp *made;
	MUST((made = ibv_create_qp(pd, &init)));
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	DO(ibv_modify_qp(made, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return made;
}

/* Adds the stores of a signaled inline WRITE of n bytes, 8 or 60, at block `at`, and returns its blocks. The
 * immediate and a reserved word are not stored. */
static uint32_t lay(struct store *stores, uint32_t *count, uint32_t at, uint32_t n) {
	uint32_t w[WORDS] = {0}, i, ds = (32 + 4 + n + 15) / 16, slot = draw(SLOTS);
	uint64_t to = (uintptr_t)far + slot * SLOT;
	uint8_t data[60];
	for (i = 0; i < n; i++)
		data[i] = (uint8_t)draw(256);
	memcpy(want + slot * SLOT, data, n);
	w[0] = htonl((at & 0xffff) << 8 | MLX5_OPCODE_RDMA_WRITE);
	w[1] = htonl(qp->qp_num << 8 | ds);
	w[2] = htonl(MLX5_WQE_CTRL_CQ_UPDATE);
	w[4] = htonl((uint32_t)(to >> 32));
	w[5] = htonl((uint32_t)to);
	w[6] = htonl(mr->rkey);
	w[8] = htonl(MLX5_INLINE_SEG | n);
	memcpy(&w[9], data, n);
	for (i = 0; i < (36 + n) / 4; i++) {
		if (i == 3 || i == 7)
			continue;
		stores[*count].to = (uint32_t *)q.sq.buf + (at * BLOCK + i) % (q.sq.wqe_cnt * BLOCK);
		stores[(*count)++].value = w[i];
	}
	return (ds + 3) / 4;
}

static void ring(uint32_t next) {
	uint32_t head[2] = {htonl((next & 0xffff) << 8), htonl(qp->qp_num << 8)};
	uint64_t both;
	memcpy(&both, head, sizeof both);
	*(volatile uint64_t *)q.bf.reg = both;
}

static void *post(void *unused) {
	static struct store stores[MOST * WORDS + 2];
	uint32_t next = 0, posted = 0, round, i, n, count;
	double begun;
	(void)unused;
	for (round = 0; round < ROUNDS; round++) {
		snprintf(doing, sizeof doing, "round %u", round);
		n = 1 + draw(MOST);
		for (count = i = 0; i < n; i++)
			next += lay(stores, &count, next, draw(2) ? 8 : 60);
		posted += n;
		stores[count].to = (uint32_t *)&q.dbrec[MLX5_SND_DBR];
		stores[count++].value = htonl(next & 0xffff);
		stores[count++].to = NULL; /* the register */
		for (i = count - 1; i > 0; i--) {
			uint32_t k = draw(i + 1);
			struct store s = stores[i];
			stores[i] = stores[k];
			stores[k] = s;
		}
		if (round % 2 == 0) /* the record first */
			for (i = 1; i < count; i++)
				if (stores[i].to == (uint32_t *)&q.dbrec[MLX5_SND_DBR]) {
					struct store s = stores[i];
					stores[i] = stores[0];
					stores[0] = s;
				}
		begun = now();
		for (i = 0; i < count; i++) {
			if (stores[i].to)
				*stores[i].to = stores[i].value;
			else
				ring(next);
			if (draw(16) == 0)
				sched_yield();
		}
		if (now() - begun > 0.4) {
			printf("lateposts: held up for %.1f s\n", now() - begun);
			fflush(stdout);
			_exit(0); /* the main thread still polls */
		}
		while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != posted)
			sched_yield();
		for (i = 0; i < sizeof far; i++)
			if (far[i] != want[i])
				FAIL("byte %u is %#x, not %#x", i, far[i], want[i]);
	}
	return (void *)(uintptr_t)posted;
}

int main(int argc, char **argv) {
	struct ibv_context *context = open_device(NULL);
	struct mlx5dv_obj o;
	struct ibv_pd *pd;
	struct ibv_wc wc;
	pthread_t poster;
	double begun;
	uint32_t took = 0;
	(void)argv;
	MUST((pd = ibv_alloc_pd(context)));
	MUST((cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0)));
	qp = make(pd);
	peer = make(pd);
	connect_with(qp, peer);
	connect_with(peer, qp);
	MUST((mr = ibv_reg_mr(pd, far, sizeof far, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	memset(&o, 0, sizeof o);
	o.qp.in = qp;
	o.qp.out = &q;
	o.cq.in = cq;
	o.cq.out = &c;
	DO(mlx5dv_init_obj(&o, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ));
	if (argc > 1) {
		struct mlx5_cqe64 *e = c.buf;
		*(volatile uint32_t *)&q.dbrec[MLX5_SND_DBR] = htonl(1); /* and no WQE */
		for (begun = now(); *(volatile uint8_t *)&e->op_own >> 4 != MLX5_CQE_REQ_ERR;) {
			MUST(now() - begun < 60);
			sched_yield();
		}
		printf("lateposts: an empty slot was executed, as announced\n");
		return 0;
	}
	MUST(pthread_create(&poster, NULL, post, NULL) == 0);
	for (;;) {
		void *posted;
		int n = ibv_poll_cq(cq, 1, &wc);
		MUST(n >= 0);
		if (n == 1) {
			SAME(wc.status, IBV_WC_SUCCESS);
			__atomic_store_n(&done, ++took, __ATOMIC_RELEASE);
		} else if (pthread_tryjoin_np(poster, &posted) == 0) {
			SAME(took, (uintptr_t)posted);
			break;
		} else {
			sched_yield();
		}
	}
	DO(ibv_dereg_mr(mr));
	DO(ibv_destroy_qp(qp));
	DO(ibv_destroy_qp(peer));
	DO(ibv_destroy_cq(cq));
	DO(ibv_dealloc_pd(pd));
	DO(ibv_close_device(context));
	printf("lateposts: %d rounds of stores in any order: ok\n", ROUNDS);
	return 0;
}
