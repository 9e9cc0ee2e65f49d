/* The steps of two ends. Both call each function, in the same order. */
#ifndef NICLESS_CHECK_STEPS_H
#define NICLESS_CHECK_STEPS_H

#include "end.h"
#include "memory.h"

/* The queue pairs that the steps use. */
struct links {
	struct link rc, srq, uc, ud; /* srq: RC, with receives from the SRQ */
};

/* Bytes of memory that moving messages of size needs. */
size_t transfer_room(size_t size);
/* Every operation that moves a message, once, with size bytes. The bytes around the message
 * must not change. */
void transfer_all(struct end *e, struct links *l, const struct memory *m, const struct ibv_mr *mr, size_t size);

/* Fetch-and-add and compare-and-swap, of one end alone and of both at once. */
void atomics(struct end *e, struct link *l, const struct memory *m, const struct ibv_mr *mr);

/* Memory windows of both types, local invalidate, send with invalidate. */
void windows(struct end *e);

/* Requests that must fail, each on a queue pair of its own. Returns how many. */
int errors(struct end *e);

#endif
