/* Queues that firmware commands (DEVX) have made, for a poster in this process: queues.c. */
#ifndef NICLESS_DEVXPOSTER_QUEUES_H
#define NICLESS_DEVXPOSTER_QUEUES_H

#include <stdint.h>

enum { LOG_BLOCKS = 6, LOG_ENTRIES = 6, MEMORY = 4096, RECEIVES = 8 };

struct memory {
	uint8_t *at;
	uint32_t lkey, rkey;
};

struct queues {
	uint8_t *ring, *record, *reg, *cq_ring, *cq_record;
	uint32_t qpn, cqn;
	struct memory near, far;
};

/* Makes a connected queue pair, and its peer, which has receives of `size` bytes each at `into` in near memory.
 * If mode (send_dbr_mode) is not 0, registers start the queue, and the record is of this program alone. */
void queues_make(struct queues *q, int collapsed, int mode, uint32_t into, uint32_t size);
void queues_destroy(void);

/* Posts the work request of a line (include/check/request.h) by the C headers. queues_ring rings, and waits if the
 * last one has a completion. They return 0 or a negative errno. The completion queue is collapsed. */
int queues_post(const char *line);
int queues_ring(void);

/* Puts 8 bytes `rounds` times to each of the first `lanes` words of far memory, from LAPPERS threads at once, each
 * of which has its part of the words: round << 32 | word + 1. Returns 0 or a negative errno. */
enum { LAPPERS = 4 };
int queues_laps(const struct memory *far, uint32_t lanes, uint32_t rounds);

#endif
