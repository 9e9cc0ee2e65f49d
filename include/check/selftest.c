/*
 * Tests posters and a poller without an engine. A thread consumes WQEs from the ring
 * as a device does, and checks them. Four posters share a small queue, so the queue is
 * full most of the time and wraps around thousands of times.
 *
 * The program is compiled as C99 and as C++17. It prints one line and exits 0, or
 * prints what is wrong and exits 1.
 */
#include "../nicless/nicless_verbs.h"
#include "../nicless/rdmaxcel.h"

#include <pthread.h>
#include <sched.h>

enum { POSTERS = 4, EACH = 25000, BLOCKS = 32, QPN = 0x123456 };

#define MUST(is) ((is) ? (void)0 : wrong(#is, __LINE__))

static void wrong(const char *what, int line) {
	fprintf(stderr, "selftest: line %d: not true: %s\n", line, what);
	exit(1);
}

/* The memory that a queue and its device share, and the state of both. */
struct bench {
	union {
		uint8_t bytes[BLOCKS * NICLESS_BLOCK];
		uint64_t align;
	} ring, cqring;
	uint64_t reg[2 * NICLESS_REG_HALF / 8];
	uint32_t record[2], cqrecord[2];
	uint64_t memory[BLOCKS * 3];
	struct nicless_sq sq;
	struct nicless_cq cq;
};

static struct bench b;

static void prepare(uint64_t blocks) {
	memset(&b, 0, sizeof b);
	MUST(nicless_sq_memory(blocks) <= sizeof b.memory);
	MUST(nicless_sq_init(&b.sq, b.ring.bytes, blocks, b.record, b.reg, QPN, b.memory) == 0);
	MUST(nicless_cq_init(&b.cq, b.cqring.bytes, 5, 64, b.cqrecord) == 0);
}

/* Posts a WRITE of one block, or of two blocks with five ranges. Its remote address names its poster. */
static int post(uint64_t poster, uint64_t i) {
	struct nicless_sge sge[5];
	struct nicless_wr wr;
	uint32_t k;
	memset(&wr, 0, sizeof wr);
	wr.id = wr.raddr = poster << 32 | i;
	wr.opcode = NICLESS_WRITE;
	wr.fm_ce_se = NICLESS_SIGNALED;
	wr.sge = sge;
	wr.sges = i % 8 == 7 ? 5 : 1;
	for (k = 0; k < wr.sges; k++) {
		sge[k].addr = i + k;
		sge[k].length = 8;
		sge[k].lkey = (uint32_t)poster;
	}
	return nicless_sq_post(&b.sq, &wr);
}

static void *poster(void *arg) {
	uint64_t me = (uint64_t)(uintptr_t)arg, i;
	for (i = 0; i < EACH; i++) {
		while (post(me, i) == -EAGAIN) {
			nicless_sq_ring(&b.sq);
			sched_yield();
		}
		if (i % 3 == 0) /* a later ring announces the other WQEs */
			nicless_sq_ring(&b.sq);
	}
	nicless_sq_ring(&b.sq);
	return 0;
}

static uint64_t field(uint64_t count, uint32_t unit, int word) {
	return nicless_be64(((nicless_word64 *)nicless_sq_unit(&b.sq, count, unit))[word]);
}

/* Executes WQEs up to the record. The WQEs of each poster must come in order. */
static void *device(void *arg) {
	uint64_t count = 0, done = 0, next[POSTERS] = {0};
	const uint64_t all = *(uint64_t *)arg;
	while (done < all) {
		uint32_t record = nicless_be32(__atomic_load_n(&b.record[NICLESS_REC_SEND], __ATOMIC_ACQUIRE));
		uint64_t end = nicless_extend(count, (uint16_t)record);
		MUST(record <= 0xffff);
		MUST(end - count <= b.sq.size);
		if (end == count)
			sched_yield();
		while (count < end) {
			uint64_t ctrl = field(count, 0, 0), id = field(count, 1, 0), units = ctrl & 0x3f, tail;
			uint8_t *cqe = nicless_cq_entry(&b.cq, done);
			MUST(ctrl >> 40 == (uint16_t)count);
			MUST((ctrl >> 32 & 0xff) == NICLESS_WRITE);
			MUST((ctrl >> 8 & 0xffffff) == QPN);
			MUST(id >> 32 < POSTERS);
			MUST((id & 0xffffffff) == next[id >> 32]);
			MUST(units == (next[id >> 32] % 8 == 7 ? 7 : 3));
			MUST(field(count, 2, 1) == next[id >> 32]);
			next[id >> 32]++;
			tail = (uint64_t)NICLESS_WRITE << 56 | (uint64_t)QPN << 32 | (uint64_t)(uint16_t)count << 16 |
			       (done >> b.cq.log & 1);
			nicless_publish64((uint64_t *)(void *)(cqe + NICLESS_CQE_TAIL), nicless_be64(tail));
			count += (units + 3) / 4;
			done++;
		}
		MUST(count == end); /* the record is at the end of a WQE */
	}
	return 0;
}

static void many(void) {
	pthread_t t[POSTERS], d;
	uint64_t i, got = 0, all = (uint64_t)POSTERS * EACH, next[POSTERS] = {0};
	struct nicless_wc wc[8];
	struct nicless_ends ends;
	prepare(BLOCKS);
	ends.sq = &b.sq;
	ends.rq = 0;
	MUST(pthread_create(&d, 0, device, &all) == 0);
	for (i = 0; i < POSTERS; i++)
		MUST(pthread_create(&t[i], 0, poster, (void *)(uintptr_t)i) == 0);
	while (got < all) {
		uint32_t n = nicless_cq_reap(&b.cq, &ends, 1, wc, 8);
		if (n == 0)
			sched_yield();
		for (i = 0; i < n; i++) {
			MUST(wc[i].kind == NICLESS_CQE_REQ && wc[i].syndrome == 0);
			MUST((wc[i].id & 0xffffffff) == next[wc[i].id >> 32]);
			next[wc[i].id >> 32]++;
		}
		got += n;
	}
	for (i = 0; i < POSTERS; i++)
		pthread_join(t[i], 0);
	pthread_join(d, 0);
	MUST(b.sq.freed == b.sq.rung && b.sq.rung == b.sq.reserved);
	MUST(nicless_be32(b.cqrecord[0]) == (all & 0xffffff));
	printf("selftest: %d posters, %llu WQEs, %llu laps of %d blocks\n", POSTERS, (unsigned long long)all,
	       (unsigned long long)(b.sq.rung / BLOCKS), BLOCKS);
}

/* A gap delays the doorbell of WQEs after it, but not their poster. */
static void gaps(void) {
	uint64_t a, c, d;
	prepare(4);
	MUST(nicless_sq_reserve(&b.sq, 1, &a) && a == 0);
	MUST(nicless_sq_reserve(&b.sq, 2, &c) && c == 1);
	nicless_sq_note(&b.sq, c, 2, 7);
	nicless_put_ctrl(nicless_sq_unit(&b.sq, c, 0), (uint16_t)c, NICLESS_NOP, QPN, 5, 0, 0);
	nicless_sq_commit(&b.sq, c, 2);
	nicless_sq_ring(&b.sq);
	MUST(b.record[1] == 0 && b.reg[0] == 0);
	nicless_sq_note(&b.sq, a, 1, 6);
	nicless_put_ctrl(nicless_sq_unit(&b.sq, a, 0), (uint16_t)a, NICLESS_NOP, QPN, 1, 0, 0);
	nicless_sq_commit(&b.sq, a, 1);
	nicless_sq_ring(&b.sq);
	MUST(b.record[1] == nicless_be32(3));
	/* the register holds the last WQE, which begins two blocks before the end */
	MUST(memcmp(b.reg, nicless_sq_unit(&b.sq, 1, 0), 8) == 0);
	MUST(!nicless_sq_reserve(&b.sq, 2, &d)); /* one block is free */
	MUST(nicless_sq_reserve(&b.sq, 1, &d) && d == 3);
	MUST(!nicless_sq_reserve(&b.sq, 1, &d));
	nicless_sq_note(&b.sq, 3, 1, 8);
	nicless_put_ctrl(nicless_sq_unit(&b.sq, 3, 0), 3, NICLESS_NOP, QPN, 1, 0, 0);
	nicless_sq_commit(&b.sq, 3, 1);
	nicless_sq_ring(&b.sq);
	MUST(memcmp(&b.reg[32], nicless_sq_unit(&b.sq, 3, 0), 8) == 0); /* the other half */
	MUST(nicless_sq_complete(&b.sq, 4, &d) == -ENOENT); /* nothing was posted there */
	MUST(nicless_sq_complete(&b.sq, 2, &d) == -ENOENT); /* no WQE begins there */
	MUST(nicless_sq_complete(&b.sq, 1, &d) == 0 && d == 7);
	MUST(nicless_sq_complete(&b.sq, 0, &d) == -ENOENT); /* it has been freed */
	MUST(nicless_sq_reserve(&b.sq, 3, &d) && d == 4);
}

/*
 * The newest completion of a collapsed queue frees all blocks up to its WQE, and only once. An
 * error stays.
 */
static void collapsed(void) {
	uint64_t *tail;
	struct nicless_wc wc;
	int i;
	prepare(8);
	memset(b.cqring.bytes, 0xff, 64);
	tail = (uint64_t *)(void *)(b.cqring.bytes + NICLESS_CQE_TAIL);
	for (i = 0; i < 8; i++)
		MUST(post(0, (uint64_t)i % 4) == 0);
	MUST(post(0, 0) == -EAGAIN);
	nicless_sq_ring(&b.sq);
	MUST(nicless_cq_advance(&b.cq, &b.sq, &wc) == 0 && b.sq.freed == 0);
	/* CQEs of another queue pair change nothing, nor do CQEs of receives */
	for (i = 0; i < 16; i++) {
		*tail = nicless_be64((uint64_t)(QPN ^ 1) << 32 | 5 << 16 | (uint32_t)i << 4);
		MUST(nicless_cq_advance(&b.cq, &b.sq, &wc) == 0 && b.sq.freed == 0);
		if (i == NICLESS_CQE_REQ || i == NICLESS_CQE_REQ_ERR || i == NICLESS_CQE_RESP_ERR)
			continue;
		*tail = nicless_be64((uint64_t)QPN << 32 | 5 << 16 | (uint32_t)i << 4);
		MUST(nicless_cq_advance(&b.cq, &b.sq, &wc) == 0 && b.sq.freed == 0);
	}
	*tail = nicless_be64((uint64_t)NICLESS_WRITE << 56 | (uint64_t)QPN << 32 | 5 << 16);
	MUST(nicless_cq_advance(&b.cq, &b.sq, &wc) == 0 && b.sq.freed == 6);
	MUST(nicless_cq_advance(&b.cq, &b.sq, &wc) == 0 && b.sq.freed == 6);
	MUST(nicless_cq_quiet(&b.cq, &b.sq, 6, &wc) == 0);
	b.cqring.bytes[NICLESS_CQE_SYNDROME] = 0x13;
	*tail = nicless_be64((uint64_t)QPN << 32 | 6 << 16 | 0xd0);
	MUST(nicless_cq_quiet(&b.cq, &b.sq, 8, &wc) == -EIO);
	MUST(wc.syndrome == 0x13 && wc.counter == 6 && wc.qpn == QPN);
	/* a failed receive of this queue pair ends its sends as well */
	*tail = nicless_be64((uint64_t)QPN << 32 | 0xe0);
	MUST(nicless_cq_quiet(&b.cq, &b.sq, 8, &wc) == -EIO && wc.kind == NICLESS_CQE_RESP_ERR);
}

/* Takes memory from a region until it is used up, and then tries to take more. */
static void taken(void) {
	struct nicless_region r;
	memset(&r, 0, sizeof r);
	r.mem = b.ring.bytes;
	r.size = 512;
	MUST(!nicless_take(&r, SIZE_MAX) && !nicless_take(&r, SIZE_MAX - 126) && !nicless_take(&r, 513) &&
	     r.used == 0);
	MUST(nicless_take(&r, 1) == r.mem && r.used == 128);
	MUST(nicless_take(&r, 129) == r.mem + 128 && r.used == 384);
	MUST(!nicless_take(&r, 129) && !nicless_take(&r, SIZE_MAX));
	MUST(nicless_take(&r, 128) == r.mem + 384 && r.used == 512);
	MUST(!nicless_take(&r, 1) && !nicless_take(&r, SIZE_MAX));
	r.size = 600; /* the last 88 bytes are too few */
	MUST(!nicless_take(&r, 1) && r.used == 512);
}

/* Invalid work requests and queues are refused. */
static void refused(void) {
	struct nicless_sge sge[NICLESS_MAX_UNITS];
	struct nicless_wr wr;
	uint8_t data[NICLESS_MAX_INLINE + 1] = {0};
	int i;
	prepare(8);
	for (i = 0; i < NICLESS_MAX_UNITS; i++)
		sge[i].addr = 0, sge[i].length = 8, sge[i].lkey = 1;
	memset(&wr, 0, sizeof wr);
	wr.opcode = 0x33;
	MUST(nicless_sq_post(&b.sq, &wr) == -EINVAL);
	wr.opcode = NICLESS_WRITE;
	wr.sge = sge;
	wr.sges = 62; /* 64 units: one too many */
	MUST(nicless_sq_post(&b.sq, &wr) == -EINVAL);
	wr.sges = 31; /* 33 units: nine blocks, and the queue has eight */
	MUST(nicless_sq_post(&b.sq, &wr) == -EINVAL);
	wr.sges = 1;
	sge[0].length = 0x80000001u;
	MUST(nicless_sq_post(&b.sq, &wr) == -EINVAL);
	wr.sges = 0;
	wr.data = data;
	wr.inline_bytes = sizeof data;
	MUST(nicless_sq_post(&b.sq, &wr) == -EINVAL);
	wr.opcode = NICLESS_READ;
	wr.inline_bytes = 8;
	MUST(nicless_sq_post(&b.sq, &wr) == -EINVAL);
	MUST(b.sq.reserved == 0);
	MUST(nicless_sq_init(&b.sq, b.ring.bytes, 3, b.record, b.reg, 1, b.memory) == -EINVAL);
	MUST(nicless_sq_init(&b.sq, b.ring.bytes, 4, b.record, b.reg, 1 << 24, b.memory) == -EINVAL);
}

int main(void) {
	gaps();
	collapsed();
	taken();
	refused();
	many();
	return 0;
}
