/*
 * The host's side of the put library: makes a PE of this process as a client of an engine,
 * and connects it with all others. Host code only. Include this header before those of the
 * C library, or define _GNU_SOURCE, as nicless_client.h needs it.
 *
 * The caller brings a way to exchange some bytes with the other PEs, as MPI_Allgather
 * does. All PEs call nicless_pes_open, and each gets the same result: if one cannot take
 * part, all fail. One thread at a time may use a struct nicless_pes.
 *
 *   struct nicless_pes_config f = {0};
 *   f.socket = socket, f.my_pe = rank, f.n_pes = size, f.heap = 1 << 20, f.exchange = allgather;
 *   if (nicless_pes_open(&p, &f))
 *           return report(p.client.error);
 *   words = nicless_pes_malloc(&p, 4096);
 *   me = nicless_pes_host(&p);             // or a GPU makes it from nicless_pes_plan
 *   nicless_uint64_p(me, &words[0], 7, (rank + 1) % size);
 */
#ifndef NICLESS_PES_H
#define NICLESS_PES_H

#include "nicless_verbs.h" /* first: it defines _GNU_SOURCE */

#include "put.h"

enum {
	NICLESS_PES_MAGIC = 0x4550636e, /* "ncPE" */
	NICLESS_PES_LOG_BLOCKS = 7      /* of a queue, if the caller does not say */
};

struct nicless_pes_config {
	const char *socket;  /* of the engine */
	int my_pe, n_pes;    /* 0 to n_pes - 1; 1 to NICLESS_PE_MOST */
	size_t heap;         /* bytes of the symmetric heap for the program, the same on all PEs */
	uint32_t log_blocks; /* log2 of the operations in flight to one PE, 1 to 15; 0: 7 */

	/*
	 * Gives `bytes` at `mine` to all PEs, and stores those of each PE in `all`, in the order
	 * of the PEs, so n_pes * bytes there. Returns 0 or a negative errno. It is called
	 * twice, with the same lengths on all PEs.
	 */
	int (*exchange)(void *arg, const void *mine, size_t bytes, void *all);
	void *arg; /* for exchange */
};

struct nicless_pes {
	struct nicless_client client;  /* client.error says why a call has failed */
	struct nicless_region queues;  /* rings, records and CQEs of all queues; the plan */
	struct nicless_region heap;    /* the bytes of the library, then those of the program */
	int my_pe, n_pes;
	uint32_t log_blocks;
	uint32_t pdn, key, receive_cqn;
	struct nicless_qp *qp;         /* n_pes of them, and of each of the next three */
	struct nicless_cq *cq;
	uint64_t *far;                 /* addresses of the heaps */
	uint32_t *rkey;
	struct nicless_pe_plan *plan;
	struct nicless_pe *host; /* 0, or what nicless_pes_host has made */
	struct nicless_cq receives; /* no message of the library is received, but a QP has a CQ for it */
};

/* The first exchange: a PE, and after it the number of its queue to each PE. */
struct nicless_pes_card {
	uint32_t magic;
	int32_t error; /* 0, or why this PE takes no part: then nothing else has a meaning */
	int32_t my_pe, n_pes;
	uint64_t heap, bytes; /* address and bytes of the heap */
	uint64_t guid;        /* of its engine */
	uint32_t rkey, pad;
};

NICLESS_ASSERT(pes_card_size, sizeof(struct nicless_pes_card) == 48);

static inline int nicless_pes_check(struct nicless_pes *p, const struct nicless_pes_config *f) {
	struct nicless_client *c = &p->client;
	if (f->n_pes < 1 || f->n_pes > NICLESS_PE_MOST || f->my_pe < 0 || f->my_pe >= f->n_pes)
		return nicless_fail(c, -EINVAL, "PE %d of %d; 1 to %d PEs are possible, numbered from 0", f->my_pe,
		                    f->n_pes, NICLESS_PE_MOST);
	if (f->heap == 0 || f->heap > ((size_t)1 << 40))
		return nicless_fail(c, -EINVAL, "symmetric heap of %zu bytes; 1 to 2^40 are possible", f->heap);
	if (f->log_blocks > NICLESS_MAX_LOG_RING)
		return nicless_fail(c, -EINVAL, "queues of 2^%u blocks; 2^1 to 2^%d are possible", f->log_blocks,
		                    NICLESS_MAX_LOG_RING);
	if (!f->exchange)
		return nicless_fail(c, -EINVAL, "no function for the exchange with the other PEs (exchange is 0)");
	return 0;
}

/* Makes the lists that have an entry for each PE. */
static inline int nicless_pes_lists(struct nicless_pes *p) {
	size_t n = (size_t)p->n_pes;
	p->qp = (struct nicless_qp *)calloc(n, sizeof *p->qp);
	p->cq = (struct nicless_cq *)calloc(n, sizeof *p->cq);
	p->far = (uint64_t *)calloc(n, sizeof *p->far);
	p->rkey = (uint32_t *)calloc(n, sizeof *p->rkey);
	if (p->qp && p->cq && p->far && p->rkey)
		return 0;
	return nicless_fail(&p->client, -ENOMEM, "no memory for the lists of %d PEs", p->n_pes);
}

/* Makes the queue to PE i, and its CQ. */
static inline int nicless_pes_queue(struct nicless_pes *p, int i) {
	struct nicless_qp_config f;
	int error;
	memset(&f, 0, sizeof f);
	error = nicless_cq_open(&p->client, &p->queues, 0, NICLESS_CQ_COLLAPSED | NICLESS_CQ_IGNORE_OVERRUN, 0,
	                        &p->cq[i], &f.send_cqn);
	if (error)
		return error;
	f.pdn = p->pdn;
	f.recv_cqn = p->receive_cqn;
	f.user_index = (uint32_t)i;
	f.type = NICLESS_RC;
	f.log_sq = (uint8_t)p->log_blocks;
	return nicless_qp_open(&p->client, &p->queues, &f, &p->qp[i]);
}

/* Makes everything of this PE that needs nothing from the others. */
static inline int nicless_pes_make(struct nicless_pes *p, const struct nicless_pes_config *f) {
	struct nicless_client *c = &p->client;
	size_t n = (size_t)p->n_pes;
	/* a ring and a ring of one receive, two records and a CQE, each in steps of 128 bytes */
	size_t queue = ((size_t)NICLESS_BLOCK << p->log_blocks) + 5 * 128;
	size_t plan = sizeof *p->plan + n * sizeof(struct nicless_pe_link) + 128;
	int i, error;
	if ((error = nicless_pes_lists(p)) != 0 || (error = nicless_connect(c, f->socket, "put library")) != 0)
		return error;
	if ((error = nicless_region_open(c, n * queue + plan + 4096, &p->queues)) != 0 ||
	    (error = nicless_region_open(c, NICLESS_PE_RESERVED + f->heap, &p->heap)) != 0)
		return error;
	p->heap.used = NICLESS_PE_RESERVED;
	if ((error = nicless_alloc_pd(c, &p->pdn)) != 0 ||
	    (error = nicless_reg_mr(c, p->pdn, p->heap.mem, p->heap.size, NICLESS_FULL_ACCESS, &p->key)) != 0 ||
	    (error = nicless_cq_open(c, &p->queues, 4, NICLESS_CQ_IGNORE_OVERRUN, 0, &p->receives,
	                             &p->receive_cqn)) != 0)
		return error;
	for (i = 0; i < p->n_pes; i++)
		if ((error = nicless_pes_queue(p, i)) != 0)
			return error;
	p->plan = (struct nicless_pe_plan *)nicless_take(&p->queues, plan);
	return p->plan ? 0 : nicless_fail(c, -ENOMEM, "the plan of %zu bytes finds no room", plan);
}

/* Returns the words for an error that another PE sends, who may send anything. */
static inline const char *nicless_pes_why(int32_t error) {
	return strerror(error < 0 && error > -4096 ? -error : EPROTO);
}

/* Checks the card of PE i, and connects the queue to it. */
static inline int nicless_pes_connect(struct nicless_pes *p, int i, const struct nicless_pes_card *card) {
	struct nicless_client *c = &p->client;
	uint32_t qpn;
	if (card->magic != NICLESS_PES_MAGIC)
		return nicless_fail(c, -EPROTO, "PE %d sent %#x in the exchange; a PE begins with %#x", i,
		                    card->magic, NICLESS_PES_MAGIC);
	if (card->error)
		return nicless_fail(c, -ECONNABORTED, "PE %d takes no part: %s", i,
		                    nicless_pes_why(card->error));
	if (card->my_pe != i || card->n_pes != p->n_pes)
		return nicless_fail(c, -EPROTO, "PE %d of %d calls itself PE %d of %d", i, p->n_pes, card->my_pe,
		                    card->n_pes);
	if (card->bytes != p->heap.size)
		return nicless_fail(c, -EINVAL, "PE %d has a heap of %llu bytes, this PE one of %zu", i,
		                    (unsigned long long)card->bytes, p->heap.size);
	p->far[i] = card->heap;
	p->rkey[i] = card->rkey;
	memcpy(&qpn, (const char *)(card + 1) + sizeof qpn * (size_t)p->my_pe, sizeof qpn);
	return nicless_qp_connect(c, &p->qp[i], qpn, card->guid);
}

/* Writes the card of this PE. */
static inline void nicless_pes_write_card(const struct nicless_pes *p, int error,
                                          struct nicless_pes_card *card) {
	int i;
	card->magic = NICLESS_PES_MAGIC;
	card->error = error;
	card->my_pe = p->my_pe;
	card->n_pes = p->n_pes;
	if (error)
		return;
	card->heap = (uintptr_t)p->heap.mem;
	card->bytes = p->heap.size;
	card->guid = p->client.device.guid;
	card->rkey = p->key;
	for (i = 0; i < p->n_pes; i++)
		memcpy((char *)(card + 1) + sizeof(uint32_t) * (size_t)i, &p->qp[i].qpn, sizeof(uint32_t));
}

static inline int nicless_pes_exchange(struct nicless_pes *p, const struct nicless_pes_config *f,
                                       const void *mine, size_t bytes, void *all) {
	int error = f->exchange(f->arg, mine, bytes, all);
	if (error == 0)
		return 0;
	return nicless_fail(&p->client, error, "exchange with the other PEs: %s", nicless_pes_why(error));
}

/*
 * Exchanges cards, and connects all queues. error is 0, or why this PE takes no part,
 * which the others get to know. A PE sends nothing before all are connected: a second
 * exchange makes sure of that.
 */
static inline int nicless_pes_meet(struct nicless_pes *p, const struct nicless_pes_config *f, int error) {
	size_t n = (size_t)p->n_pes, size = sizeof(struct nicless_pes_card) + (sizeof(uint32_t) * n + 7) / 8 * 8;
	char *cards = (char *)calloc(n + 1, size), *mine = cards ? cards + n * size : 0;
	int32_t *states = (int32_t *)calloc(n, sizeof *states), state;
	int i, lost = 0;
	if (!cards || !states)
		lost = nicless_fail(&p->client, -ENOMEM, "no memory for the cards of %d PEs", p->n_pes);
	if (lost == 0) {
		nicless_pes_write_card(p, error, (struct nicless_pes_card *)(void *)mine);
		lost = nicless_pes_exchange(p, f, mine, size, cards);
	}
	for (i = 0; lost == 0 && error == 0 && i < p->n_pes; i++)
		error = nicless_pes_connect(p, i, (struct nicless_pes_card *)(void *)(cards + (size_t)i * size));
	state = error;
	if (lost == 0)
		lost = nicless_pes_exchange(p, f, &state, sizeof state, states);
	for (i = 0; lost == 0 && error == 0 && i < p->n_pes; i++)
		if (states[i])
			error = nicless_fail(&p->client, -ECONNABORTED, "PE %d takes no part: %s", i,
			                     nicless_pes_why(states[i]));
	if (lost && error == 0)
		error = lost;
	free(cards);
	free(states);
	return error;
}

/*
 * Ends the PE of this process. Other PEs then get errors for what they post to it, so a
 * barrier comes before. No thread and no kernel uses the PE any more.
 */
static inline void nicless_pes_close(struct nicless_pes *p) {
	int i;
	nicless_close(&p->client);
	for (i = 0; p->qp && i < p->n_pes; i++)
		nicless_qp_free(&p->qp[i]);
	nicless_region_close(&p->client, &p->queues); /* the engine has dropped both: this unmaps them */
	nicless_region_close(&p->client, &p->heap);
	free(p->qp);
	free(p->cq);
	free(p->far);
	free(p->rkey);
	free(p->host);
	p->qp = 0;
	p->cq = 0;
	p->far = 0;
	p->rkey = 0;
	p->host = 0;
}

/*
 * Makes a PE and connects it with all others. Returns 0 or a negative errno, and a
 * sentence in p->client.error. After an error there is nothing to close. Wrong arguments
 * (-EINVAL) are found before the exchange, in which this PE then takes no part.
 */
static inline int nicless_pes_open(struct nicless_pes *p, const struct nicless_pes_config *f) {
	int error;
	memset(p, 0, sizeof *p);
	p->client.fd = -1;
	if ((error = nicless_pes_check(p, f)) != 0)
		return error;
	p->my_pe = f->my_pe;
	p->n_pes = f->n_pes;
	p->log_blocks = f->log_blocks ? f->log_blocks : (uint32_t)NICLESS_PES_LOG_BLOCKS;
	error = nicless_pes_meet(p, f, nicless_pes_make(p, f));
	if (error)
		nicless_pes_close(p);
	return error;
}

/*
 * Takes bytes from the symmetric heap, at a multiple of 128, zeroed at first. All PEs make
 * the same calls in the same order, so that each object is at the same offset. Returns 0
 * if too little is left. There is no free.
 */
static inline void *nicless_pes_malloc(struct nicless_pes *p, size_t bytes) {
	return nicless_take(&p->heap, bytes);
}

/* Returns the address `there` of something in this process, where base is at base_there. */
static inline uint64_t nicless_pes_there(const void *at, const void *base, const void *base_there) {
	return (uintptr_t)base_there + ((uintptr_t)at - (uintptr_t)base);
}

/*
 * Writes the plan of the PE for threads that know p->queues.mem, p->heap.mem and
 * p->client.uar by other addresses: a GPU, by those of cudaHostGetDevicePointer. uar 0
 * means no registers, if a GPU cannot map them. Returns the plan by its address there.
 * nicless_pe_init makes the PE from it, which is the only one that may use the queues.
 */
static inline const struct nicless_pe_plan *nicless_pes_plan(struct nicless_pes *p, void *queues, void *heap,
                                                             void *uar) {
	struct nicless_pe_plan *plan = p->plan;
	struct nicless_pe_link *link = (struct nicless_pe_link *)(void *)(plan + 1);
	int i;
	memset(plan, 0, sizeof *plan);
	plan->heap = (uintptr_t)heap;
	plan->base = (uintptr_t)p->heap.mem;
	plan->bytes = p->heap.size;
	plan->blocks = (uint64_t)1 << p->log_blocks;
	plan->lkey = p->key;
	plan->my_pe = p->my_pe;
	plan->n_pes = p->n_pes;
	for (i = 0; i < p->n_pes; i++) {
		const struct nicless_qp *q = &p->qp[i];
		link[i].ring = nicless_pes_there(q->sq.ring, p->queues.mem, queues);
		link[i].record = nicless_pes_there(q->sq.record, p->queues.mem, queues);
		link[i].cqe = nicless_pes_there(p->cq[i].ring, p->queues.mem, queues);
		link[i].reg = uar ? nicless_pes_there(q->reg, p->client.uar, uar) : 0;
		link[i].far = p->far[i];
		link[i].rkey = p->rkey[i];
		link[i].qpn = q->qpn;
	}
	return (const struct nicless_pe_plan *)(uintptr_t)nicless_pes_there(plan, p->queues.mem, queues);
}

/*
 * Returns the PE for threads of this process, made by the first call. Returns 0 if there is
 * no memory. It lives until nicless_pes_close.
 */
static inline struct nicless_pe *nicless_pes_host(struct nicless_pes *p) {
	const struct nicless_pe_plan *plan;
	if (p->host)
		return p->host;
	plan = nicless_pes_plan(p, p->queues.mem, p->heap.mem, p->client.uar);
	p->host = (struct nicless_pe *)malloc(nicless_pe_memory(p->n_pes, plan->blocks));
	if (p->host && nicless_pe_init(p->host, plan) != 0) {
		free(p->host);
		p->host = 0;
	}
	return p->host;
}

/*
 * Finds why the queue to a PE has failed (nicless_explain). peer is its entry of the PE's
 * list, copied to the host if the PE is a GPU's. Returns -ENOENT if it has not failed.
 */
static inline int nicless_pes_explain(const struct nicless_pes *p, const struct nicless_peer *peer,
                                      struct nicless_reason *r) {
	struct nicless_cq q;
	struct nicless_wc wc;
	memset(&q, 0, sizeof q);
	memset(&wc, 0, sizeof wc);
	if (peer->syndrome == 0)
		return -ENOENT;
	q.status = p->client.status;
	q.status_size = p->client.status_size;
	wc.qpn = (uint32_t)peer->sq.qpn;
	wc.counter = (uint16_t)peer->counter;
	wc.syndrome = (uint8_t)peer->syndrome;
	wc.kind = NICLESS_CQE_REQ_ERR;
	return nicless_explain(&q, &wc, r);
}

#endif
