/* The steps of two ends. Both ends call the same functions in the same order. */
#ifndef NICLESS_CHECK_STEPS_H
#define NICLESS_CHECK_STEPS_H

#include "end.h"
#include "memory.h"

/* The queue pairs that the steps use. */
struct links {
	struct link rc, srq, uc, ud; /* srq: RC, with receives from the SRQ */
};

/* Returns how many bytes of memory transfer_all needs for messages of size bytes. */
size_t transfer_room(size_t size);
/* Runs every operation that moves a message, once, with size bytes. The bytes around the
 * message must not change. Operations on queue pairs that are not there are left out. */
void transfer_all(struct end *e, struct links *l, const struct memory *m, const struct ibv_mr *mr,
                  size_t size);

/* Runs fetch-and-add and compare-and-swap, first from one end alone and then from both ends at
 * the same time. */
void atomics(struct end *e, struct link *l, const struct memory *m, const struct ibv_mr *mr);

/* Checks memory windows of both types, local invalidate, and send with invalidate. */
void windows(struct end *e);
/* Checks send with invalidate alone. */
void invalidations(struct end *e);

/* Makes requests that must fail, each on a queue pair of its own. Returns how many requests
 * it made. */
int errors(struct end *e);

#endif
