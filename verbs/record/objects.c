/* The objects of this process, by the struct of libibverbs, and queue pairs and keys also by their number. */
#include "record.h"

#include <stdlib.h>

enum { BUCKETS = 1 << 14 }; /* 100000 queue pairs, or keys, make short lists */

static struct nr_object *by_handle[BUCKETS], *by_number[BUCKETS];
static uint64_t last_id;

static size_t hash(uint64_t x) { return (size_t)(x * UINT64_C(0x9e3779b97f4a7c15) >> 50); }

struct nr_object *nr_find(enum nr_type type, const void *handle) {
	struct nr_object *o = by_handle[hash((uintptr_t)handle)];
	while (o && (o->handle != handle || o->type != type))
		o = o->next;
	return o;
}

struct nr_object *nr_number(enum nr_type type, const struct nr_object *context, uint32_t number) {
	struct nr_object *o = by_number[hash(number)];
	while (o && (o->number != number || o->type != type || o->context != context))
		o = o->by_number;
	return o;
}

struct nr_object *nr_add(enum nr_type type, const void *handle, struct nr_object *context, uint32_t number) {
	struct nr_object *o = calloc(1, sizeof *o);
	size_t h = hash((uintptr_t)handle), n = hash(number);
	if (!o)
		return NULL;
	o->type = type;
	o->handle = handle;
	o->context = context;
	o->number = number;
	o->id = ++last_id;
	o->generation = nr_generation;
	o->next = by_handle[h];
	__atomic_signal_fence(__ATOMIC_RELEASE); /* a handler of a signal may look things up without the lock */
	by_handle[h] = o;
	if (type == NR_QP || type == NR_KEY) {
		o->by_number = by_number[n];
		by_number[n] = o;
	}
	return o;
}

void nr_remove(struct nr_object *o) {
	struct nr_object **p;
	for (p = &by_handle[hash((uintptr_t)o->handle)]; *p; p = &(*p)->next)
		if (*p == o) {
			*p = o->next;
			break;
		}
	for (p = &by_number[hash(o->number)]; *p; p = &(*p)->by_number)
		if (*p == o) {
			*p = o->by_number;
			break;
		}
	if (o->type == NR_QP)
		free(o->u.qp.shadow);
	if (o->type == NR_CQ)
		free(o->u.cq.copied);
	free(o);
}

void nr_each(enum nr_type type, void (*f)(struct nr_object *)) {
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct nr_object *o = by_handle[i]; o; o = o->next)
			if (o->type == type)
				f(o);
}

bool nr_records(const struct nr_object *o) { return o && nr_on && o->generation == nr_generation; }
