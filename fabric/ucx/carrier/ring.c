#include "ring.h"

#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "little-endian processors only"
#endif

size_t ring_size(uint64_t slots, uint64_t data) {
	if (slots < 2 || slots > 1 << 16 || (slots & (slots - 1)) || data % RING_LINE || data > (uint64_t)1 << 32)
		return 0;
	return RING_SLOTS_AT + slots * RING_SLOT + data;
}

static void attach(struct ring *r, unsigned char *mem, uint64_t slots, uint64_t data) {
	memset(r, 0, sizeof *r);
	r->slots = mem + RING_SLOTS_AT;
	r->data = r->slots + slots * RING_SLOT;
	r->consumed = (uint64_t *)(void *)(mem + RING_CONSUMER_AT);
	r->mask = slots - 1;
	r->size = data;
}

static uint64_t *word(const struct ring *r, uint64_t n) {
	return (uint64_t *)(void *)(r->slots + (n & r->mask) * RING_SLOT);
}

bool ring_producer(struct ring *r, unsigned char *mem, uint64_t slots, uint64_t data) {
	attach(r, mem, slots, data);
	r->limit = slots;
	r->ends = calloc(slots, sizeof *r->ends);
	for (uint64_t i = 0; i < slots; i++)
		__atomic_store_n(word(r, i), 0, __ATOMIC_RELEASE);
	return r->ends != NULL;
}

bool ring_consumer(struct ring *r, unsigned char *mem, uint64_t slots, uint64_t data) {
	attach(r, mem, slots, data);
	__atomic_store_n(r->consumed, 0, __ATOMIC_RELEASE);
	return true;
}

bool ring_ready(const struct ring *r) {
	uint64_t w = be64(__atomic_load_n(word(r, r->next), __ATOMIC_ACQUIRE));
	return (uint32_t)(w >> 32) == (uint32_t)(r->next + 1);
}

int ring_peek(const struct ring *r, struct packet *p) {
	uint64_t *slot = word(r, r->next);
	uint64_t first = be64(__atomic_load_n(slot, __ATOMIC_ACQUIRE));
	if ((uint32_t)(first >> 32) != (uint32_t)(r->next + 1))
		return 0;
	uint64_t second = be64(__atomic_load_n(slot + 1, __ATOMIC_RELAXED));
	uint64_t place = second & 0xffffffff;
	p->head_length = first >> 16 & 0xff;
	p->length = first & 0xffff;
	p->path = (uint32_t)(second >> 32);
	if (p->head_length > RING_MAX_HEAD)
		return -1;
	memcpy(p->head, (unsigned char *)slot + RING_HEAD, RING_MAX_HEAD);
	if (place == RING_IN_SLOT) {
		if (p->head_length + p->length > RING_INLINE)
			return -1;
		p->payload = (unsigned char *)slot + RING_HEAD + p->head_length;
	} else {
		if (place * RING_LINE + p->length > r->size)
			return -1;
		p->payload = r->data + place * RING_LINE;
	}
	return 1;
}

void ring_free(struct ring *r, uint64_t n) { __atomic_store_n(r->consumed, n, __ATOMIC_RELEASE); }

/* observe reads how many packets were consumed. A count that cannot be right is ignored. */
static bool observe(struct ring *r) {
	uint64_t n = __atomic_load_n(r->consumed, __ATOMIC_ACQUIRE);
	uint64_t last = r->limit - (r->mask + 1);
	if (n > last && n <= r->next) {
		r->limit = n + r->mask + 1;
		r->freed = r->ends[(n - 1) & r->mask];
	}
	return r->next != r->limit;
}

bool ring_put(struct ring *r, uint32_t path, const void *head, unsigned head_length, const void *payload,
              unsigned length) {
	if (r->next == r->limit && !observe(r))
		return false;
	unsigned char *slot = (unsigned char *)word(r, r->next);
	uint64_t place = RING_IN_SLOT, tail = r->tail;
	if (head_length + length <= RING_INLINE) {
		if (length)
			memcpy(slot + RING_HEAD + head_length, payload, length);
	} else {
		if (!r->size)
			return false;
		uint64_t at = tail, offset = at % r->size;
		if (offset + length > r->size)
			at += r->size - offset; /* the rest of the area is too short */
		if (at + length - r->freed > r->size && (!observe(r) || at + length - r->freed > r->size))
			return false;
		offset = at % r->size;
		memcpy(r->data + offset, payload, length);
		place = offset / RING_LINE;
		tail = (at + length + RING_LINE - 1) & ~(uint64_t)(RING_LINE - 1);
	}
	memcpy(slot + RING_HEAD, head, head_length);
	uint64_t second = be64((uint64_t)path << 32 | place);
	memcpy(slot + 8, &second, 8);
	r->tail = r->ends[r->next & r->mask] = tail;
	r->next++;
	__atomic_store_n((uint64_t *)(void *)slot,
	                 be64((uint64_t)(uint32_t)r->next << 32 | (uint64_t)head_length << 16 | length),
	                 __ATOMIC_RELEASE);
	return true;
}
