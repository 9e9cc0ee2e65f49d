/*
 * Functions for a completion queue with one poller, and for a collapsed completion
 * queue, which any number of parties may read. They ignore data inside of CQEs
 * (scatter to CQE), because this device never writes such data.
 */
#ifndef NICLESS_CQ_H
#define NICLESS_CQ_H

#include "rq.h"
#include "sq.h"

struct nicless_cq {
	uint8_t *ring;    /* the entries, at an address that is a multiple of 64 */
	uint32_t *record; /* two words: consumer index, arm */
	uint32_t log;     /* log2 of the number of entries */
	uint32_t stride;  /* bytes of an entry, 64 or 128; the CQE is the last 64 */
	uint64_t ci;      /* count of the next entry */

	/* For nicless_explain (reason.h): the client's memory of the status page, and its bytes. 0: none. */
	const uint64_t *status;
	size_t status_size;
};

/* A completion, in host order. kind decides which of the other fields have a meaning. */
struct nicless_wc {
	uint64_t id;        /* id of the work request; only nicless_cq_reap fills it in */
	uint64_t timestamp; /* cycles of the device clock; 0 for errors */
	uint32_t qpn;
	uint32_t uidx;    /* the user index of the QP */
	uint32_t bytes;   /* bytes received, or returned by a READ or an atomic */
	uint32_t imm;     /* the immediate, or the rkey that was invalidated */
	uint16_t counter; /* wqe_counter: the first block of the WQE, or the count of the receive */
	uint8_t kind;     /* enum nicless_cqe_opcode */
	uint8_t opcode;   /* the opcode of the send WQE */
	uint8_t syndrome; /* set only if kind is REQ_ERR or RESP_ERR, which are failures */
	uint8_t vendor;   /* the vendor's syndrome; set only for the same kinds */
};

NICLESS_HD int nicless_wc_failed(const struct nicless_wc *wc) {
	return wc->kind == NICLESS_CQE_REQ_ERR || wc->kind == NICLESS_CQE_RESP_ERR;
}

/*
 * Makes a queue and marks every entry as owned by the device. Call this before the
 * device has the queue, because the device writes only completions into the
 * ring.
 */
NICLESS_HD int nicless_cq_init(struct nicless_cq *q, void *ring, uint32_t log, uint32_t stride,
                               uint32_t *record) {
	uint64_t i;
	if (log > NICLESS_MAX_LOG_CQ || (stride != NICLESS_CQE && stride != 2 * NICLESS_CQE))
		return -EINVAL;
	q->ring = (uint8_t *)ring;
	q->record = record;
	q->log = log;
	q->stride = stride;
	q->ci = 0;
	q->status = 0;
	q->status_size = 0;
	for (i = 1; i <= 1ull << log; i++)
		q->ring[i * stride - 1] = NICLESS_CQE_FRESH;
	return 0;
}

/* Returns the CQE of the completion with this count. */
NICLESS_HD uint8_t *nicless_cq_entry(const struct nicless_cq *q, uint64_t count) {
	return q->ring + ((count & ((1ull << q->log) - 1)) + 1) * q->stride - NICLESS_CQE;
}

/* Loads the last eight bytes of a CQE, its tail. Read the other bytes only after this load. */
NICLESS_HD uint64_t nicless_cqe_observe(const uint8_t *cqe) {
	return nicless_be64(nicless_observe64((const uint64_t *)(const void *)(cqe + NICLESS_CQE_TAIL)));
}

/* Reads the fields in the tail, and the syndromes of a failure. A collapsed queue gives no other fields. */
NICLESS_HD void nicless_wc_tail(struct nicless_wc *wc, uint64_t tail, const uint8_t *cqe) {
	wc->id = wc->timestamp = 0;
	wc->qpn = (uint32_t)(tail >> 32) & 0xffffff;
	wc->opcode = (uint8_t)(tail >> 56);
	wc->counter = (uint16_t)(tail >> 16);
	wc->kind = (uint8_t)tail >> 4;
	wc->uidx = wc->bytes = wc->imm = 0;
	wc->syndrome = wc->vendor = 0;
	if (nicless_wc_failed(wc)) {
		wc->syndrome = cqe[NICLESS_CQE_SYNDROME];
		wc->vendor = cqe[NICLESS_CQE_VENDOR];
	}
}

/* Reads a CQE whose tail has been observed. */
NICLESS_HD void nicless_wc_parse(struct nicless_wc *wc, uint64_t tail, const uint8_t *cqe) {
	const nicless_word32 *w = (const nicless_word32 *)(const void *)cqe;
	nicless_wc_tail(wc, tail, cqe);
	wc->uidx = nicless_be32(w[NICLESS_CQE_SRQN_UIDX / 4]) & 0xffffff;
	if (nicless_wc_failed(wc))
		return;
	wc->imm = nicless_be32(w[NICLESS_CQE_IMM_INVAL_PKEY / 4]);
	wc->bytes = nicless_be32(w[NICLESS_CQE_BYTE_CNT / 4]);
	wc->timestamp = (uint64_t)nicless_be32(w[NICLESS_CQE_TIMESTAMP / 4]) << 32 |
	                nicless_be32(w[NICLESS_CQE_TIMESTAMP / 4 + 1]);
}

/*
 * Polls at most max completions and returns how many it has read. It publishes the
 * consumer index once, after it has read all of them. It does not free blocks or
 * receives of the queues; nicless_cq_reap does that.
 */
NICLESS_HD uint32_t nicless_cq_poll(struct nicless_cq *q, struct nicless_wc *wc, uint32_t max) {
	uint32_t n;
	for (n = 0; n < max; n++, q->ci++) {
		const uint8_t *cqe = nicless_cq_entry(q, q->ci);
		uint64_t tail = nicless_cqe_observe(cqe);
		if (!nicless_cqe_valid((uint8_t)tail, q->ci, q->log))
			break;
		nicless_wc_parse(&wc[n], tail, cqe);
	}
	if (n)
		nicless_publish32(&q->record[NICLESS_REC_CI], nicless_be32((uint32_t)q->ci & 0xffffff));
	return n;
}

/*
 * Requests one event on the queue's completion channel. The device sends the event as
 * soon as there is a CQE that has not been polled. If solicited is not 0, only a
 * solicited CQE or an error counts. sn is the number of events of this queue so far.
 * reg is at NICLESS_UAR_ARM of the queue's UAR page. Poll once more between arming and
 * waiting.
 */
NICLESS_HD void nicless_cq_arm(const struct nicless_cq *q, uint64_t *reg, uint32_t cqn, uint32_t sn,
                               int solicited) {
	uint32_t word = (sn & 3) << 28 | (uint32_t)(solicited != 0) << 24 | ((uint32_t)q->ci & 0xffffff);
	nicless_publish32(&q->record[NICLESS_REC_ARM], nicless_be32(word));
	nicless_publish64(reg, nicless_be64((uint64_t)word << 32 | cqn));
}

/* The queues of a QP. Completions of the QP free blocks of sq and receives of rq. */
struct nicless_ends {
	struct nicless_sq *sq;
	struct nicless_rq *rq; /* 0: the QP has no receive queue */
};

/*
 * Polls as nicless_cq_poll does, fills in the ids of the work requests, and frees
 * their blocks and receives. ends[i] is the QP with user index i. Completions of
 * unknown QPs are dropped, and so are completions of work that was not posted.
 */
NICLESS_HD uint32_t nicless_cq_reap(struct nicless_cq *q, const struct nicless_ends *ends, uint32_t n_ends,
                                    struct nicless_wc *wc, uint32_t max) {
	uint32_t i, kept = 0, n = nicless_cq_poll(q, wc, max);
	for (i = 0; i < n; i++) {
		struct nicless_wc *c = &wc[i];
		const struct nicless_ends *e = c->uidx < n_ends ? &ends[c->uidx] : 0;
		int bad = -ENOENT;
		if (!e || !e->sq || e->sq->qpn != c->qpn)
			continue;
		if (c->kind == NICLESS_CQE_REQ || c->kind == NICLESS_CQE_REQ_ERR)
			bad = nicless_sq_complete(e->sq, c->counter, &c->id);
		else if (e->rq && (c->kind <= NICLESS_CQE_RESP_SEND_INV || c->kind == NICLESS_CQE_RESP_ERR))
			bad = nicless_rq_complete(e->rq, c->counter, &c->id);
		if (!bad)
			wc[kept++] = *c;
	}
	return kept;
}

/*
 * Frees the blocks that have completed according to the newest CQE of a collapsed
 * queue, and returns 0. After the queue pair has failed it returns -EIO, and fills in
 * *wc unless wc is 0.
 *
 * A collapsed queue belongs to one send queue. The receives of that queue pair, and
 * all other queue pairs, must complete to other CQs. Otherwise one of their CQEs could
 * overwrite a completion or an error that no party has seen, and the poster would wait
 * for ever. This function ignores such CQEs, with one exception: it reports a failed
 * receive of sq's own queue pair as a failure.
 *
 * Any number of parties may call this at once, including the lanes of a GPU, because
 * it only advances freed from the value that it has loaded. It loads freed first. So
 * either the index that it reads afterwards is less than a ring ahead of freed, or
 * another party has advanced freed meanwhile and the swap fails. The CQE may be
 * overwritten at any time, so only its last eight bytes are read. An error is never
 * overwritten.
 */
NICLESS_HD int nicless_cq_look(const struct nicless_cq *q, struct nicless_sq *sq, struct nicless_wc *wc) {
	const uint8_t *cqe = nicless_cq_entry(q, 0);
	uint64_t freed = nicless_poster_observe64(&sq->freed);
	uint64_t tail = nicless_cqe_observe(cqe);
	uint8_t kind = (uint8_t)tail >> 4;
	uint64_t count = nicless_extend(freed, (uint16_t)(tail >> 16));
	if ((tail >> 32 & 0xffffff) != sq->qpn)
		return 0; /* no completion yet, or a completion of another queue pair */
	/* The CQE, which was acquired, comes after the record, and so after the note and a rung beyond it. */
	if (kind == NICLESS_CQE_REQ && count < nicless_poster_load64(&sq->rung)) {
		uint64_t blocks = nicless_poster_load64(&sq->note[count & (sq->size - 1)].blocks);
		if (blocks)
			nicless_poster_publish_swap64(&sq->freed, freed, count + blocks);
	}
	if (kind != NICLESS_CQE_REQ_ERR && kind != NICLESS_CQE_RESP_ERR)
		return 0;
	if (wc)
		nicless_wc_tail(wc, tail, cqe);
	return -EIO;
}

/*
 * The same as nicless_cq_look, but on a GPU one lane at a time looks, and the others
 * return 0 meanwhile. A look crosses PCIe, and those of many lanes would keep the one
 * that matters waiting. A lane that looks waits for nobody, so looking is soon 0 again;
 * it protects nothing. On a host a look costs next to nothing, and a thread that has
 * lost its core must not keep the others from looking.
 */
NICLESS_HD int nicless_cq_advance(const struct nicless_cq *q, struct nicless_sq *sq, struct nicless_wc *wc) {
#if defined(NICLESS_ON_DEVICE)
	int failed;
	if (!nicless_poster_swap64(&sq->looking, 0, 1))
		return 0;
	failed = nicless_cq_look(q, sq, wc);
	nicless_poster_store64(&sq->looking, 0);
	return failed;
#else
	return nicless_cq_look(q, sq, wc);
#endif
}

/*
 * Waits until all blocks below count have completed. The last WQE below count must be
 * signaled, and the queue must have been rung.
 */
NICLESS_HD int nicless_cq_quiet(const struct nicless_cq *q, struct nicless_sq *sq, uint64_t count,
                                struct nicless_wc *wc) {
	while (nicless_poster_observe64(&sq->freed) < count) {
		int failed = nicless_cq_advance(q, sq, wc);
		if (failed)
			return failed;
	}
	return 0;
}

#endif
