/*
 * For the tests in Go: the C side of a ring without UCX.
 *
 *	ring constants         prints the constants of ring.h
 *	ring echo SLOTS DATA N with the rings in descriptor 3, as main.c has them: sends each of N packets back
 *	ring judge SLOTS DATA  reads slots of 128 bytes, and prints what each is: packet 0 of a ring
 */
#define _GNU_SOURCE
#include "../carrier.h"
#include "../control.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int echo(uint64_t slots, uint64_t data, uint64_t n) {
	size_t size = ring_size(slots, data);
	size_t second = RINGS_AT + ((size + RINGS_AT - 1) & ~(size_t)(RINGS_AT - 1));
	unsigned char *m = mmap(NULL, second + size, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
	struct ring in, out;
	if (!size || m == MAP_FAILED || !ring_consumer(&in, m + RINGS_AT, slots, data) ||
	    !ring_producer(&out, m + second, slots, data))
		return 1;
	puts("ready");
	fflush(stdout);
	while (in.next < n) {
		struct packet p;
		int got = ring_peek(&in, &p);
		if (got < 0)
			return 2;
		if (!got || !ring_put(&out, ~p.path, p.head, p.head_length, p.payload, p.length)) {
			sched_yield();
			continue;
		}
		ring_take(&in);
		if (in.next % 3 == 0 || in.next == n)
			ring_free(&in, in.next);
	}
	return 0;
}

static int judge(uint64_t slots, uint64_t data) {
	unsigned char *m = aligned_alloc(64, (ring_size(slots, data) + 63) & ~(size_t)63);
	struct ring r;
	if (!m || !ring_consumer(&r, m, slots, data))
		return 1;
	while (fread(r.slots, RING_SLOT, 1, stdin)) {
		struct packet p;
		switch (ring_peek(&r, &p)) {
		case 1:
			printf("packet %u %u %u %td\n", p.path, p.head_length, p.length, p.payload - r.slots);
			break;
		case 0:
			puts("none");
			break;
		default:
			puts("corrupt");
		}
	}
	return 0;
}

int main(int argc, char **argv) {
	uint64_t v[3] = {0};
	for (int i = 2; i < argc && i < 5; i++)
		v[i - 2] = strtoull(argv[i], NULL, 10);
	if (argc == 2) {
		printf("%d %d %d %d %d %d %d %d %u %d %d %d %d %d %d %d %d %d\n", RING_SLOT, RING_HEAD, RING_MAX_HEAD,
		       RING_MAX_PAYLOAD, RING_INLINE, RING_SLOTS_AT, RING_CONSUMER_AT, RING_LINE, RING_IN_SLOT,
		       ASLEEP_AT, ENGINE_ASLEEP_AT, RINGS_AT, PATHS, CONNECTIONS, WORKER_ADDRESS, DOORS, TICKETS,
		       MESSAGE);
		return 0;
	}
	return argc == 5 ? echo(v[0], v[1], v[2]) : judge(v[0], v[1]);
}
