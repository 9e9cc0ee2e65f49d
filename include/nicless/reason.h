/*
 * Why a completion is an error. The device writes the reason into memory that the
 * client can read before it writes the CQE (docs/CONTROL.md, Reasons), so finding it
 * takes no request. Host code only.
 */
#ifndef NICLESS_REASON_H
#define NICLESS_REASON_H

#include <string.h>

#include "cq.h"

enum {
	NICLESS_STATUS_REASON_LAST = 256, /* offsets in the status page */
	NICLESS_STATUS_REASONS = 264,
	NICLESS_STATUS_REASON_SIZE = 272,
	NICLESS_STATUS_REASON_OFFSET = 280,
	NICLESS_STATUS_PAGE = 4096,
	NICLESS_REASON = 512, /* bytes of a reason that this header reads */
	NICLESS_REASON_HEAD = 40,
	NICLESS_REASON_TEXT = 384,
	NICLESS_SYNDROME_FLUSH = 5
};

enum nicless_reason_of { NICLESS_OF_WQE, NICLESS_OF_RECEIVE, NICLESS_OF_COMPLETION };

/* A reason, as the device writes it. code and text are terminated by nicless_explain. */
struct nicless_reason {
	uint64_t number;
	uint32_t queue; /* the queue pair that failed or was stopped */
	uint16_t index;
	uint8_t of;      /* enum nicless_reason_of: what index counts */
	uint8_t has_wqe; /* 1: wqe has the bytes that were wrong */
	uint64_t cause_of;
	uint32_t cause_queue; /* the queue where the cause was; 0: queue */
	uint16_t cause_index;
	uint8_t cause_kind; /* enum nicless_reason_of */
	uint8_t syndrome;   /* of the CQE; 0: no CQE has this reason, but flushes follow from it */
	char code[24];      /* stable, docs/EXPLANATIONS.md */
	uint16_t text_bytes;
	uint8_t pad[6];
	uint8_t wqe[64];
	char text[NICLESS_REASON_TEXT]; /* a sentence in UTF-8 */
};

NICLESS_ASSERT(reason_size, sizeof(struct nicless_reason) == NICLESS_REASON);

static inline uint64_t nicless_status_word(const struct nicless_cq *q, uint64_t offset) {
	return nicless_observe64(&q->status[offset / 8]);
}

/* Returns whether a reason, of which the first NICLESS_REASON_HEAD bytes are read, belongs to wc. */
static inline int nicless_reason_belongs(const struct nicless_reason *r, const struct nicless_wc *wc) {
	uint8_t of = wc->kind == NICLESS_CQE_RESP_ERR ? NICLESS_OF_RECEIVE : NICLESS_OF_WQE;
	int same = r->index == wc->counter && r->of == of;
	uint16_t ahead = (uint16_t)(wc->counter - r->index);
	if (r->queue != wc->qpn)
		return 0;
	if (wc->syndrome != NICLESS_SYNDROME_FLUSH)
		return same && r->syndrome != NICLESS_SYNDROME_FLUSH;
	if (r->syndrome == NICLESS_SYNDROME_FLUSH)
		return same;
	if (r->of != NICLESS_OF_WQE || of != NICLESS_OF_WQE)
		return 1;
	return ahead < 0x8000 && (ahead > 0 || r->syndrome == 0);
}

/*
 * Finds why wc, a completion of q that has failed, is an error, and returns 0. If wc was
 * flushed, the reason is that of the cause: queue and index then name the WQE that
 * failed first. q was made by nicless_cq_open, and its client is connected.
 *
 * Returns -ENOENT if the device has no reason, for example because it is older than
 * version 2.5 or wc has not failed, and -EOVERFLOW if the device has overwritten it: too
 * many completions have failed since. Call it soon after the poll.
 */
static inline int nicless_explain(const struct nicless_cq *q, const struct nicless_wc *wc,
                                  struct nicless_reason *r) {
	uint64_t n, last, entries, size, at;
	uint64_t *to = (uint64_t *)(void *)r;
	size_t i;
	if (!q->status || q->status_size < NICLESS_STATUS_PAGE || !nicless_wc_failed(wc))
		return -ENOENT;
	entries = nicless_status_word(q, NICLESS_STATUS_REASONS);
	size = nicless_status_word(q, NICLESS_STATUS_REASON_SIZE);
	at = nicless_status_word(q, NICLESS_STATUS_REASON_OFFSET);
	if (entries == 0 || size < NICLESS_REASON || size % 8 || size > q->status_size || at % 8 ||
	    at > q->status_size || entries > (q->status_size - at) / size)
		return -ENOENT;
	last = nicless_status_word(q, NICLESS_STATUS_REASON_LAST);
	for (n = last; n > 0; n--) {
		const uint64_t *from = q->status + (at + (n - 1) % entries * size) / 8;
		if (last - n >= entries || nicless_observe64(from) != n)
			return -EOVERFLOW;
		for (i = 0; i < NICLESS_REASON_HEAD / 8; i++)
			to[i] = nicless_observe64(&from[i]);
		if (!nicless_reason_belongs(r, wc))
			continue;
		for (; i < NICLESS_REASON / 8; i++)
			to[i] = nicless_observe64(&from[i]);
		if (nicless_observe64(from) != n)
			return -EOVERFLOW;
		r->number = n;
		r->code[sizeof r->code - 1] = 0;
		if (r->text_bytes > NICLESS_REASON_TEXT - 1) {
			r->text_bytes = NICLESS_REASON_TEXT - 1;
			while (r->text_bytes > 0 && (r->text[r->text_bytes] & 0xc0) == 0x80)
				r->text_bytes--; /* not within a character */
		}
		r->text[r->text_bytes] = 0;
		return 0;
	}
	return -ENOENT;
}

#endif
