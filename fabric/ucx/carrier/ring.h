/*
 * The ring of packets of package packetring (internal/packetring/doc.go), in C. Words are
 * big-endian, except the consumer's count. Each function has the order of memory accesses that
 * docs/ORDERING.md says at 24 and 25.
 */
#ifndef NICLESS_UCX_RING_H
#define NICLESS_UCX_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RING_SLOT = 128,        /* bytes of a slot */
	RING_HEAD = 16,         /* bytes of its two words */
	RING_MAX_HEAD = 48,     /* most headers of a packet */
	RING_MAX_PAYLOAD = 65535,
	RING_INLINE = RING_SLOT - RING_HEAD,
	RING_SLOTS_AT = 256,    /* where the slots begin */
	RING_CONSUMER_AT = 128, /* where the consumer's count is */
	RING_LINE = 64,         /* unit of places in the data area */
};

#define RING_IN_SLOT 0xffffffffu /* place of a payload that is in its slot */

struct ring {
	unsigned char *slots, *data;
	uint64_t *consumed;
	uint64_t mask, size; /* slots - 1; bytes of the data area */
	uint64_t next;       /* number of the next packet */

	/* of a producer: */
	uint64_t limit;       /* the packet with this number has no slot yet */
	uint64_t tail, freed; /* bytes of the data area used and freed so far */
	uint64_t *ends;       /* tail after the packet in each slot */
};

struct packet {
	uint32_t path;
	unsigned head_length, length;
	unsigned char head[RING_MAX_HEAD]; /* a copy */
	const unsigned char *payload;      /* in the ring */
};

/* ring_size returns the bytes of a ring, or 0 if it is not possible. */
size_t ring_size(uint64_t slots, uint64_t data);

/* ring_producer and ring_consumer begin a ring anew. They return false if memory is short. */
bool ring_producer(struct ring *, unsigned char *mem, uint64_t slots, uint64_t data);
bool ring_consumer(struct ring *, unsigned char *mem, uint64_t slots, uint64_t data);

/* ring_ready reports whether there is a packet. */
bool ring_ready(const struct ring *);

/* ring_peek returns 1 and the next packet, 0 if there is none, -1 if the slot is corrupt. The
 * packet stays the next one until ring_take. */
int ring_peek(const struct ring *, struct packet *);
static inline void ring_take(struct ring *r) { r->next++; }

/* ring_free gives the first n packets, counted from the first of all, back to the producer. */
void ring_free(struct ring *, uint64_t n);

/* ring_put sends a packet. It returns false if there is no room. */
bool ring_put(struct ring *, uint32_t path, const void *head, unsigned head_length, const void *payload,
              unsigned length);

static inline uint64_t be64(uint64_t v) { return __builtin_bswap64(v); }
static inline uint32_t be32(uint32_t v) { return __builtin_bswap32(v); }

#endif
