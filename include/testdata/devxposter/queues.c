#include "queues.h"

#include "check.c"
#include "mailbox.c"

#include "check/request.h"
#include "nicless/cq.h"

#include <pthread.h>

static struct devx d;
static struct devx_cq sends, receives;
static struct devx_qp poster, peer;
static struct ibv_mr *mr[2];
static struct nicless_sq sq;
static struct nicless_cq collapsed_cq;
static uint64_t unread[1];              /* the record of a queue that has none */
static uint64_t words[3 << LOG_BLOCKS]; /* nicless_sq_memory */

static struct memory memory_make(int i) {
	struct memory m;
	DO(posix_memalign((void **)&m.at, 4096, MEMORY));
	memset(m.at, 0, MEMORY);
	MUST((mr[i] = ibv_reg_mr(d.pd, m.at, MEMORY,
	                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                             IBV_ACCESS_REMOTE_ATOMIC)));
	m.lkey = mr[i]->lkey;
	m.rkey = mr[i]->rkey;
	return m;
}

/* The peer has a receive queue in front of its send queue, in one umem. */
static void make_peer(const struct memory *near, uint32_t into, uint32_t size) {
	enum { STRIDE = 64 };
	static struct nicless_rq rq;
	static uint64_t ids[RECEIVES];
	uint8_t in[MAILBOX];
	cq_begin(&d, &receives, in, LOG_ENTRIES, 0);
	cq_finish(&d, &receives, in);
	qp_begin(&d, &peer, in, 0, &receives);
	peer.ring = umem_make(&d, 4096, 0);
	put_bits(in, 0x20, 22, 19, 3); /* RECEIVES */
	put_bits(in, 0x20, 18, 16, 2); /* STRIDE */
	put_bits(in, 0xb4, 23, 0, receives.number);
	put_bits(in, 0xc4, 26, 24, 0);
	qp_finish(&d, &peer, in);
	DO(-nicless_rq_init(&rq, peer.ring.at, RECEIVES, STRIDE, (uint32_t *)peer.record.at, ids));
	for (uint32_t i = 0; i < RECEIVES; i++) {
		struct nicless_sge piece = {(uintptr_t)near->at + into + i * size, size, near->lkey};
		DO(-nicless_rq_post(&rq, &piece, 1, i));
	}
	nicless_rq_ring(&rq);
}

void queues_make(struct queues *q, int collapsed, int mode, uint32_t into, uint32_t size) {
	uint8_t in[MAILBOX];
	devx_open(&d, NULL);
	q->near = memory_make(0);
	q->far = memory_make(1);
	cq_begin(&d, &sends, in, collapsed ? 0 : LOG_ENTRIES, collapsed);
	cq_finish(&d, &sends, in);
	qp_begin(&d, &poster, in, LOG_BLOCKS, &sends);
	MUST((poster.uar = mlx5dv_devx_alloc_uar(d.context, MLX5DV_UAR_ALLOC_TYPE_BF)));
	put_bits(in, 0x28, 31, 30, mode);
	poster.no_record = mode != 0;
	qp_finish(&d, &poster, in);
	make_peer(&q->near, into, size);
	qp_connect(&d, &peer, poster.number);
	qp_connect(&d, &poster, peer.number);
	q->ring = poster.ring.at;
	q->record = mode ? (uint8_t *)unread : poster.record.at;
	q->reg = (uint8_t *)poster.uar->reg_addr;
	q->cq_ring = sends.ring.at;
	q->cq_record = sends.record.at;
	q->qpn = poster.number;
	q->cqn = sends.number;
	collapsed_cq.ring = q->cq_ring;
	collapsed_cq.stride = NICLESS_CQE;
	DO(-nicless_sq_init(&sq, q->ring, 1 << LOG_BLOCKS, (uint32_t *)q->record, q->reg, q->qpn, words));
}

static int waits; /* the last work request has a completion */

int queues_post(const char *line) {
	static char text[4096];
	struct nicless_wr wr;
	snprintf(text, sizeof text, "%s", line);
	MUST(!strcmp(strtok(text, " "), "post"));
	read_request(&wr);
	waits = wr.fm_ce_se & NICLESS_SIGNALED;
	return nicless_sq_post(&sq, &wr);
}

int queues_ring(void) {
	struct nicless_wc wc;
	nicless_sq_ring(&sq);
	return waits ? nicless_cq_quiet(&collapsed_cq, &sq, sq.reserved, &wc) : 0;
}

static struct {
	const struct memory *far;
	uint32_t lanes, rounds;
} laps;

/* Posts for every LAPPERS-th word. Returns 0, or a pointer that is not 0 if the queue has failed. */
static void *lap(void *first) {
	struct nicless_wr wr = {0};
	struct nicless_wc wc;
	wr.opcode = NICLESS_WRITE;
	wr.fm_ce_se = NICLESS_SIGNALED;
	wr.inline_bytes = 8;
	wr.rkey = laps.far->rkey;
	for (uint64_t round = 0; round < laps.rounds; round++)
		for (uint64_t word = (uintptr_t)first; word < laps.lanes; word += LAPPERS) {
			uint64_t value = round << 32 | (word + 1);
			wr.data = &value;
			wr.raddr = (uintptr_t)laps.far->at + 8 * word;
			while (nicless_sq_post(&sq, &wr) == -EAGAIN) {
				nicless_sq_ring(&sq);
				if (nicless_cq_advance(&collapsed_cq, &sq, &wc))
					return &laps;
				sched_yield();
			}
			nicless_sq_ring(&sq);
		}
	return NULL;
}

int queues_laps(const struct memory *far, uint32_t lanes, uint32_t rounds) {
	pthread_t threads[LAPPERS];
	struct nicless_wc wc;
	void *failed = NULL, *one;
	laps.far = far;
	laps.lanes = lanes;
	laps.rounds = rounds;
	for (uintptr_t i = 0; i < LAPPERS; i++)
		DO(pthread_create(&threads[i], NULL, lap, (void *)i));
	for (int i = 0; i < LAPPERS; i++) {
		DO(pthread_join(threads[i], &one));
		failed = one ? one : failed;
	}
	return failed ? -EIO : nicless_cq_quiet(&collapsed_cq, &sq, sq.reserved, &wc);
}

void queues_destroy(void) {
	qp_destroy(&poster);
	qp_destroy(&peer);
	cq_destroy(&sends);
	cq_destroy(&receives);
	mlx5dv_devx_free_uar(poster.uar);
	for (int i = 0; i < 2; i++) {
		void *at = mr[i]->addr;
		DO(ibv_dereg_mr(mr[i]));
		free(at);
	}
	devx_close(&d);
}
