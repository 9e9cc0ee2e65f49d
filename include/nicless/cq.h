/*
 * A completion queue with one poller, and the reading of a collapsed one, which
 * any number of parties may do. Entries with data in them (scatter to CQE), which
 * this device never writes, are read without it.
 */
#ifndef NICLESS_CQ_H
#define NICLESS_CQ_H

#include "rq.h"
#include "sq.h"

struct nicless_cq {
	uint8_t *ring;    /* entries, on a multiple of 64 bytes */
	uint32_t *record; /* two words: consumer index, arm */
	uint32_t log;     /* log2 of entries */
	uint32_t stride;  /* 64 or 128 bytes; the CQE is the last 64 */
	uint64_t ci;      /* count of the next entry */
};

/* What an entry says, in host order. Which fields mean something depends on kind. */
struct nicless_wc {
	uint64_t id;        /* of the work request, after nicless_cq_reap */
	uint64_t timestamp; /* cycles of the device clock; 0 on errors */
	uint32_t qpn;
	uint32_t uidx;    /* user index of the QP */
	uint32_t bytes;   /* received; returned by READ and atomics */
	uint32_t imm;     /* immediate, or the rkey that was invalidated */
	uint16_t counter; /* wqe_counter: first block of the WQE, or count of the receive */
	uint8_t kind;     /* enum nicless_cqe_opcode */
	uint8_t opcode;   /* of the send WQE */
	uint8_t syndrome; /* of kinds REQ_ERR and RESP_ERR, which are failures, and the vendor's */
	uint8_t vendor;
};

NICLESS_HD int nicless_wc_failed(const struct nicless_wc *wc) {
	return wc->kind == NICLESS_CQE_REQ_ERR || wc->kind == NICLESS_CQE_RESP_ERR;
}

/*
 * Marks every entry as the device's, which must happen before the device learns
 * of the queue: it writes completions into the ring and nothing else.
 */
NICLESS_HD int nicless_cq_init(struct nicless_cq *q, void *ring, uint32_t log, uint32_t stride, uint32_t *record) {
	uint64_t i;
	if (log > NICLESS_MAX_LOG_CQ || (stride != NICLESS_CQE && stride != 2 * NICLESS_CQE))
		return -EINVAL;
	q->ring = (uint8_t *)ring;
	q->record = record;
	q->log = log;
	q->stride = stride;
	q->ci = 0;
	for (i = 1; i <= 1ull << log; i++)
		q->ring[i * stride - 1] = NICLESS_CQE_FRESH;
	return 0;
}

/* The CQE of a count. */
NICLESS_HD uint8_t *nicless_cq_entry(const struct nicless_cq *q, uint64_t count) {
	return q->ring + ((count & ((1ull << q->log) - 1)) + 1) * q->stride - NICLESS_CQE;
}

/* The last eight bytes, behind which everything else of the entry may be read. */
NICLESS_HD uint64_t nicless_cqe_observe(const uint8_t *cqe) {
	return nicless_be64(nicless_observe64((const uint64_t *)(const void *)(cqe + NICLESS_CQE_TAIL)));
}

/* Reads the tail of an entry, and what a collapsed one can tell too. */
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

/* Reads an entry whose tail has been observed. */
NICLESS_HD void nicless_wc_parse(struct nicless_wc *wc, uint64_t tail, const uint8_t *cqe) {
	const nicless_word32 *w = (const nicless_word32 *)(const void *)cqe;
	nicless_wc_tail(wc, tail, cqe);
	wc->uidx = nicless_be32(w[8]) & 0xffffff;
	if (nicless_wc_failed(wc))
		return;
	wc->imm = nicless_be32(w[9]);
	wc->bytes = nicless_be32(w[11]);
	wc->timestamp = (uint64_t)nicless_be32(w[12]) << 32 | nicless_be32(w[13]);
}

/*
 * Takes at most max completions off the queue and returns how many. The
 * consumer index is published once, behind the reads of all of them.
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
 * Asks for one event on the queue's completion channel when an entry is there
 * that has not been polled: any, or only a solicited one or an error. sn is how
 * many events of this queue have been seen. reg is at NICLESS_UAR_ARM of the
 * queue's UAR page. Poll once more between arming and waiting.
 */
NICLESS_HD void nicless_cq_arm(const struct nicless_cq *q, uint64_t *reg, uint32_t cqn, uint32_t sn, int solicited) {
	uint32_t word = (sn & 3) << 28 | (uint32_t)(solicited != 0) << 24 | ((uint32_t)q->ci & 0xffffff);
	nicless_publish32(&q->record[NICLESS_REC_ARM], nicless_be32(word));
	nicless_publish64(reg, nicless_be64((uint64_t)word << 32 | cqn));
}

/* Where the completions of a QP go. */
struct nicless_ends {
	struct nicless_sq *sq;
	struct nicless_rq *rq; /* 0: none */
};

/*
 * nicless_cq_poll, and what the completions free is free: user index i of a QP
 * names ends[i]. Completions of QPs that are not there, and those of work that
 * was not posted, are passed over.
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
 * Frees what the newest completion in a collapsed queue says is done, and
 * returns 0; or -EIO once the queue pair has failed, which wc, unless it is 0,
 * then explains.
 *
 * A collapsed queue belongs to one send queue. Receives, of the same queue pair
 * too, and other queue pairs complete elsewhere: what they wrote here would take
 * the place of a completion that nobody has seen, or of an error, and would be
 * waited for without end. Of all that only a failed receive of sq's own queue pair
 * counts, as the failure that it is.
 *
 * Any number of parties may call it at once, a GPU's
 * lanes among them, since it only ever moves freed on from what it found:
 * freed is loaded first, so the index read after it is less than a ring ahead,
 * or freed has moved and the swap fails. Of an entry that may be overwritten at
 * any time only the last eight bytes are read; an error stays.
 */
NICLESS_HD int nicless_cq_advance(const struct nicless_cq *q, struct nicless_sq *sq, struct nicless_wc *wc) {
	const uint8_t *cqe = nicless_cq_entry(q, 0);
	uint64_t freed = nicless_observe64(&sq->freed);
	uint64_t tail = nicless_cqe_observe(cqe);
	uint8_t kind = (uint8_t)tail >> 4;
	uint64_t count = nicless_extend(freed, (uint16_t)(tail >> 16));
	if ((tail >> 32 & 0xffffff) != sq->qpn)
		return 0; /* fresh, or another's */
	if (kind == NICLESS_CQE_REQ && count < nicless_observe64(&sq->rung)) {
		uint64_t blocks = nicless_load64(&sq->note[count & (sq->size - 1)].blocks);
		if (blocks)
			nicless_ordered_swap64(&sq->freed, freed, count + blocks);
	}
	if (kind != NICLESS_CQE_REQ_ERR && kind != NICLESS_CQE_RESP_ERR)
		return 0;
	if (wc)
		nicless_wc_tail(wc, tail, cqe);
	return -EIO;
}

/*
 * Waits until the blocks below count have completed. The last WQE below it must
 * be signaled, and somebody must have rung.
 */
NICLESS_HD int nicless_cq_quiet(const struct nicless_cq *q, struct nicless_sq *sq, uint64_t count,
                                struct nicless_wc *wc) {
	while (nicless_observe64(&sq->freed) < count) {
		int failed = nicless_cq_advance(q, sq, wc);
		if (failed)
			return failed;
	}
	return 0;
}

#endif
