/*
 * PEs of the put library, each a process, on a real engine. `put SOCKET SCENARIO PES` starts
 * them, prints a result and exits 0, or prints what is wrong and exits 1. The Go tests of
 * this folder run it.
 */
#define NICLESS_PE_CHUNK ((uint64_t)200) /* so that puts and gets are cut */
#include "../nicless/pes_local.h"

#include <pthread.h>
#include <sys/wait.h>

enum { MOST = 16, BYTES = 10000, THREADS = 4, EACH = 200 };

static struct nicless_pes pes;
static struct nicless_pe *me;
static int my, n, next, before; /* numbers of PEs */

#define MUST(is) ((is) ? (void)0 : wrong(#is, __LINE__))
#define OK(call) done((call), #call, __LINE__)

static void wrong(const char *what, int line) {
	fprintf(stderr, "put: PE %d: line %d: not true: %s\n", my, line, what);
	exit(1);
}

static void done(int error, const char *what, int line) {
	if (error == 0)
		return;
	fprintf(stderr, "put: PE %d: line %d: %s = %d %s\n", my, line, what, error, pes.client.error);
	exit(1);
}

/* The same object on all PEs. */
static void *object(size_t bytes) {
	void *at = nicless_pes_malloc(&pes, bytes);
	MUST(at != 0);
	return at;
}

static uint64_t *word_list(size_t words) { return (uint64_t *)object(8 * words); }

static uint8_t pattern(int pe, size_t i) { return (uint8_t)((size_t)pe * 37 + i * 11 + (i >> 8)); }

static void values(void) {
	int32_t *i32 = (int32_t *)object(4), got_i32 = 0;
	uint32_t *u32 = (uint32_t *)object(8), got_u32 = 0;
	int64_t *i64 = (int64_t *)object(8), got_i64 = 0;
	uint64_t *u64 = (uint64_t *)object(8), got_u64 = 0;
	float *f = (float *)object(4), got_f = 0;
	double *d = (double *)object(8), got_d = 0;
	u32[1] = 0xfeedf00d;
	OK(nicless_barrier_all(me));
	OK(nicless_int32_p(me, i32, -5 - my, next));
	OK(nicless_uint32_p(me, u32, 0xfffffff0u + (uint32_t)my, next));
	OK(nicless_int64_p(me, i64, -((int64_t)1 << 40) - my, next));
	OK(nicless_uint64_p(me, u64, ~(uint64_t)my, next));
	OK(nicless_float_p(me, f, 0.5f + (float)my, next));
	OK(nicless_double_p(me, d, 0.25 + my, next));
	OK(nicless_barrier_all(me));
	MUST(*i32 == -5 - before && u32[0] == 0xfffffff0u + (uint32_t)before);
	MUST(*i64 == -((int64_t)1 << 40) - before);
	MUST(*u64 == ~(uint64_t)before && *f == 0.5f + (float)before && *d == 0.25 + before);
	MUST(u32[1] == 0xfeedf00d);
	OK(nicless_int32_g(me, i32, next, &got_i32));
	OK(nicless_uint32_g(me, u32, next, &got_u32));
	OK(nicless_int64_g(me, i64, next, &got_i64));
	OK(nicless_uint64_g(me, u64, next, &got_u64));
	OK(nicless_float_g(me, f, next, &got_f));
	OK(nicless_double_g(me, d, next, &got_d));
	MUST(got_i32 == -5 - my && got_u32 == 0xfffffff0u + (uint32_t)my && got_i64 == -((int64_t)1 << 40) - my);
	MUST(got_u64 == ~(uint64_t)my && got_f == 0.5f + (float)my && got_d == 0.25 + my);
}

static void memory(void) {
	uint8_t *from = (uint8_t *)object(BYTES), *to = (uint8_t *)object(BYTES);
	uint8_t *back = (uint8_t *)object(BYTES);
	size_t i;
	for (i = 0; i < BYTES; i++)
		from[i] = pattern(my, i);
	OK(nicless_barrier_all(me));
	OK(nicless_putmem(me, to + 1, from, BYTES - 1, next));
	OK(nicless_barrier_all(me));
	for (i = 0; i < BYTES - 1; i++)
		MUST(to[i + 1] == pattern(before, i));
	OK(nicless_getmem(me, back, from + 3, BYTES - 3, before));
	for (i = 0; i < BYTES - 3; i++)
		MUST(back[i] == pattern(before, i + 3));
	OK(nicless_putmem(me, back, from, BYTES, my)); /* to itself */
	OK(nicless_quiet_pe(me, my));
	MUST(memcmp(back, from, BYTES) == 0);
	OK(nicless_putmem(me, from, from, 0, next));
	OK(nicless_getmem(me, from, from, 0, next));
	OK(nicless_barrier_all(me));
}

static void signals(void) {
	uint64_t *from = word_list(64), *to = word_list(64), *set = word_list(1), *add = word_list(1), round, i;
	for (round = 1; round <= 100; round++) {
		for (i = 0; i < 64; i++)
			from[i] = round << 32 | (uint64_t)my << 16 | i;
		OK(nicless_putmem_signal(me, to, from, 512, set, round, NICLESS_SIGNAL_SET, next));
		MUST(nicless_signal_wait_until(set, NICLESS_CMP_EQ, round) == round);
		for (i = 0; i < 64; i++)
			MUST(to[i] == (round << 32 | (uint64_t)before << 16 | i));
		/* the receiver has read, so the next put may come */
		OK(nicless_putmem_signal(me, to, from, 0, add, 3, NICLESS_SIGNAL_ADD, before));
		OK(nicless_uint64_wait_until(add, NICLESS_CMP_GE, 3 * round));
		OK(nicless_quiet(me)); /* the source is changed */
	}
	MUST(nicless_signal_fetch(add) == 300);
	OK(nicless_barrier_all(me));
}

/* All PEs change words of PE 0, or of PE n - 1. */
static void atomics(void) {
	uint64_t *sum = word_list(4), *taken = word_list(100 * MOST), *won = word_list(2), *chain = word_list(2);
	uint64_t old = 0, total = (uint64_t)n * (uint64_t)(n + 1) / 2, mine = (uint64_t)my + 1;
	int i;
	for (i = 0; i < 100; i++) {
		OK(nicless_uint64_atomic_inc(me, &sum[0], 0));
		OK(nicless_uint64_atomic_add(me, &sum[1], mine, 0));
		OK(nicless_uint64_atomic_fetch_inc(me, &sum[2], n - 1, &old));
		MUST(old < (uint64_t)(100 * n));
		OK(nicless_uint64_atomic_inc(me, &taken[old], 0));
		OK(nicless_uint64_atomic_fetch_add(me, &sum[3], mine, n - 1, &old));
		MUST(old <= 100 * total - mine);
	}
	OK(nicless_uint64_atomic_compare_swap(me, &won[0], 0, mine, n - 1, &old));
	if (old == 0)
		OK(nicless_uint64_atomic_inc(me, &won[1], 0));
	OK(nicless_uint64_atomic_swap(me, &chain[0], mine, n - 1, &old));
	OK(nicless_uint64_atomic_add(me, &chain[1], old, n - 1));
	OK(nicless_barrier_all(me));
	OK(nicless_uint64_atomic_fetch(me, &won[0], n - 1, &old));
	MUST(old >= 1 && old <= (uint64_t)n);
	MUST(my != 0 || (sum[0] == 100 * (uint64_t)n && sum[1] == 100 * total && won[1] == 1));
	MUST(my != n - 1 || (sum[2] == 100 * (uint64_t)n && sum[3] == 100 * total));
	MUST(my != n - 1 || chain[0] + chain[1] == total);
	for (i = 0; my == 0 && i < 100 * n; i++)
		MUST(taken[i] == 1); /* each ticket once */
	OK(nicless_barrier_all(me));
	OK(nicless_uint64_atomic_set(me, &sum[0], 77 + mine, next));
	OK(nicless_barrier_all(me));
	MUST(sum[0] == 78 + (uint64_t)before);
}

static void comparisons(void) {
	static const int want[6][3] = {{0, 1, 0}, {1, 0, 1}, {0, 0, 1}, {1, 1, 0}, {1, 0, 0}, {0, 1, 1}};
	int32_t i32 = -1;
	uint32_t u32 = 0xffffffffu;
	int64_t i64 = -1;
	uint64_t u64 = ~(uint64_t)0, small;
	int cmp, k;
	for (cmp = NICLESS_CMP_EQ; cmp <= NICLESS_CMP_GE; cmp++)
		for (k = 0; k < 3; k++) {
			small = (uint64_t)k + 1; /* less than 2, 2, greater */
			MUST(nicless_uint64_test(&small, cmp, 2) == want[cmp][k]);
			if (want[cmp][k]) {
				OK(nicless_uint64_wait_until(&small, cmp, 2));
				MUST(nicless_signal_wait_until(&small, cmp, 2) == small);
			}
		}
	MUST(nicless_int32_test(&i32, NICLESS_CMP_LT, 0) == 1);
	MUST(nicless_uint32_test(&u32, NICLESS_CMP_GT, 0) == 1);
	MUST(nicless_int64_test(&i64, NICLESS_CMP_LT, 0) == 1);
	MUST(nicless_uint64_test(&u64, NICLESS_CMP_GT, 0) == 1);
	OK(nicless_int32_wait_until(&i32, NICLESS_CMP_LE, -1));
	OK(nicless_uint32_wait_until(&u32, NICLESS_CMP_NE, 0));
	OK(nicless_int64_wait_until(&i64, NICLESS_CMP_GE, -1));
	MUST(nicless_uint64_test(&u64, 6, 0) == -EINVAL && nicless_int32_wait_until(&i32, -1, 0) == -EINVAL);
	MUST(nicless_signal_wait_until(&u64, 6, 0) == u64);
}

static void operations(void) {
	MUST(nicless_my_pe(me) == my && nicless_n_pes(me) == n);
	values();
	memory();
	signals();
	atomics();
	comparisons();
	OK(nicless_barrier_all(me));
}

/* A PE that has passed a barrier may have put for the next one already, and not for the one after that. */
static void barriers(void) {
	uint64_t *from = word_list(MOST), k;
	int i;
	for (k = 1; k <= 300; k++) {
		for (i = 0; i < n; i++)
			OK(nicless_uint64_p(me, &from[my], k, i));
		OK(nicless_barrier_all(me));
		for (i = 0; i < n; i++) {
			uint64_t is = nicless_observe64(&from[i]);
			MUST(is == k || is == k + 1);
		}
	}
}

/* Counts how much has been posted. */
static uint64_t posted(void) {
	uint64_t sum = 0;
	int i;
	for (i = 0; i < n; i++)
		sum += me->peer[i].sq.reserved;
	return sum;
}

/* Wrong arguments are refused, and nothing is posted. */
static void mistakes(void) {
	uint8_t *in = (uint8_t *)object(64), *end = me->heap + me->size, *library = me->heap - 8;
	uint64_t *w = (uint64_t *)(void *)in, *odd = (uint64_t *)(void *)(in + 4), old = 5, other = 0, before_all;
	uint64_t *last = (uint64_t *)(void *)(end - 8);
	int bad[3] = {-1, 0, 1 << 20}, i, no;
	bad[1] = n;
	OK(nicless_barrier_all(me));
	before_all = posted();
	for (i = 0; i < 3; i++) {
		no = bad[i];
		MUST(nicless_putmem(me, in, in, 0, no) == -EINVAL);
		MUST(nicless_getmem(me, in, in, 0, no) == -EINVAL);
		MUST(nicless_putmem_signal(me, in, in, 0, w, 1, NICLESS_SIGNAL_SET, no) == -EINVAL);
		MUST(nicless_putmem_signal(me, in, in, 8, w, 1, NICLESS_SIGNAL_SET, no) == -EINVAL);
		MUST(nicless_uint64_p(me, w, 1, no) == -EINVAL && nicless_uint64_g(me, w, no, &old) == -EINVAL);
		MUST(nicless_uint64_atomic_inc(me, w, no) == -EINVAL);
		MUST(nicless_uint64_atomic_swap(me, w, 1, no, &old) == -EINVAL);
		MUST(nicless_quiet_pe(me, no) == -EINVAL && nicless_pe_syndrome(me, no) == 0);
	}
	MUST(nicless_putmem(me, end - 7, in, 8, next) == -EINVAL);
	MUST(nicless_putmem(me, in, end - 7, 8, next) == -EINVAL);
	MUST(nicless_putmem(me, library, in, 8, next) == -EINVAL);
	MUST(nicless_putmem(me, in, library, 8, next) == -EINVAL);
	MUST(nicless_putmem(me, in, in, (size_t)-1, next) == -EINVAL);
	MUST(nicless_putmem(me, in, &old, 8, next) == -EINVAL);
	MUST(nicless_getmem(me, &old, in, 8, next) == -EINVAL && nicless_getmem(me, in, end, 1, next) == -EINVAL);
	MUST(nicless_uint64_p(me, &other, 1, next) == -EINVAL);
	MUST(nicless_uint64_g(me, &other, next, &old) == -EINVAL);
	MUST(nicless_signal_op(me, odd, 1, NICLESS_SIGNAL_SET, next) == -EINVAL);
	MUST(nicless_signal_op(me, w, 1, 2, next) == -EINVAL);
	MUST(nicless_putmem_signal(me, in, in, 8, odd, 1, NICLESS_SIGNAL_ADD, next) == -EINVAL);
	MUST(nicless_putmem_signal(me, in, in, 8, &other, 1, NICLESS_SIGNAL_ADD, next) == -EINVAL);
	MUST(nicless_putmem_signal(me, end, in, 8, w, 1, NICLESS_SIGNAL_ADD, next) == -EINVAL);
	MUST(nicless_uint64_atomic_add(me, odd, 1, next) == -EINVAL);
	MUST(nicless_uint64_atomic_fetch_add(me, odd, 1, next, &old) == -EINVAL);
	MUST(nicless_uint64_atomic_fetch(me, &other, next, &old) == -EINVAL);
	MUST(nicless_uint64_atomic_compare_swap(me, (uint64_t *)(void *)library, 0, 1, next, &old) == -EINVAL);
	MUST(old == 5 && posted() == before_all);
	OK(nicless_uint64_p(me, last, 1, next)); /* the last word of the heap is one */
	OK(nicless_barrier_all(me));
	MUST(*last == 1 && nicless_pes_malloc(&pes, (size_t)1 << 30) == 0);
}

static uint64_t *tickets, *marks, *slots;

/* One of the threads that use a PE at once. */
static void *thread(void *arg) {
	uint64_t me_at = (uint64_t)my * THREADS + (uint64_t)(uintptr_t)arg, i, ticket = 0, got = 0;
	for (i = 0; i < EACH; i++) {
		OK(nicless_uint64_atomic_fetch_inc(me, tickets, 0, &ticket));
		MUST(ticket < (uint64_t)(n * THREADS * EACH));
		OK(nicless_uint64_atomic_inc(me, &marks[ticket], next));
		OK(nicless_uint64_p(me, &slots[me_at], ticket, next));
		nicless_fence(me);
		if (i % 4 == 0) { /* a READ after a WRITE of the same queue sees it */
			OK(nicless_uint64_g(me, &slots[me_at], next, &got));
			MUST(got == ticket);
		}
	}
	return 0;
}

/* Threads get their own results, also if there is one word for all results, and the ring is short. */
static void threads(void) {
	pthread_t t[THREADS];
	size_t i;
	uint64_t sum = 0;
	tickets = word_list(1);
	marks = word_list(MOST * THREADS * EACH);
	slots = word_list(MOST * THREADS);
	for (i = 1; my % 2 == 0 && i < NICLESS_PE_RESULTS; i++)
		me->claim[i] = 1;
	OK(nicless_barrier_all(me));
	for (i = 0; i < THREADS; i++)
		MUST(pthread_create(&t[i], 0, thread, (void *)(uintptr_t)i) == 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
	OK(nicless_barrier_all(me));
	for (i = 0; i < (size_t)(n * THREADS * EACH); i++) {
		MUST(marks[i] <= 1); /* no ticket twice */
		sum += marks[i];
	}
	MUST(sum == THREADS * EACH);
	MUST(my != 0 || *tickets == (uint64_t)(n * THREADS * EACH));
	OK(nicless_barrier_all(me));
}

/* The last PE dies. The others get errors from it, soon, and go on with each other. */
static void death(void) {
	uint64_t *w = word_list(MOST), *hello = word_list(1), got = 0;
	int dead = n - 1, i, error;
	struct nicless_reason r;
	OK(nicless_barrier_all(me));
	if (my == dead)
		_exit(0);
	do { /* what the dead one took before it died is no error */
		error = nicless_uint64_p(me, &w[my], 1, dead);
		if (error == 0)
			error = nicless_quiet(me);
	} while (error == 0);
	MUST(error == -EIO && nicless_pe_syndrome(me, dead) == 0x15 && nicless_pe_syndrome(me, my) == 0);
	OK(nicless_pes_explain(&pes, &me->peer[dead], &r));
	MUST(r.queue == me->peer[dead].sq.qpn && r.text_bytes > 0);
	MUST(nicless_pes_explain(&pes, &me->peer[my], &r) == -ENOENT);
	for (i = 0; i < dead; i++)
		OK(nicless_uint64_p(me, &w[my], 9, i));
	MUST(nicless_quiet(me) == -EIO); /* and has waited for the others */
	for (i = 0; i < dead; i++) {
		OK(nicless_uint64_g(me, &w[my], i, &got));
		MUST(got == 9);
	}
	MUST(nicless_uint64_p(me, w, 1, dead) == -EIO && nicless_uint64_g(me, w, dead, &got) == -EIO);
	MUST(nicless_getmem(me, w, w, 8, dead) == -EIO && nicless_uint64_atomic_fetch(me, w, dead, &got) == -EIO);
	MUST(nicless_putmem_signal(me, w, w, 8, w, 1, NICLESS_SIGNAL_SET, dead) == -EIO);
	MUST(nicless_barrier_all(me) == -EIO && got == 9);
	for (i = 0; i < dead; i++)
		OK(nicless_signal_op(me, hello, 1, NICLESS_SIGNAL_ADD, i));
	MUST(nicless_signal_wait_until(hello, NICLESS_CMP_GE, (uint64_t)dead) >= (uint64_t)dead);
	for (i = 0; i < dead; i++) /* nobody leaves before all have used it */
		OK(nicless_quiet_pe(me, i));
	for (i = 0; i < dead; i++)
		OK(nicless_signal_op(me, hello, 1, NICLESS_SIGNAL_ADD, i));
	MUST(nicless_signal_wait_until(hello, NICLESS_CMP_EQ, (uint64_t)(2 * dead)) == (uint64_t)(2 * dead));
	for (i = 0; i < dead; i++)
		nicless_quiet_pe(me, i); /* another one may have left meanwhile */
}

static void none(void) {}

static const struct scenario {
	const char *name;
	void (*run)(void);
	uint32_t log_blocks;
} list[] = {{"operations", operations, 0}, {"narrow", operations, 1}, {"barriers", barriers, 0},
            {"mistakes", mistakes, 0},     {"threads", threads, 2},   {"death", death, 0},
            {"refused", none, 0},          {"unequal", none, 0}};

/* A PE, in a process of its own. The last one of two scenarios cannot take part. */
static void run(const struct scenario *s, const char *path, int fd) {
	struct nicless_pes_local local;
	struct nicless_pes_config f;
	int error;
	local.fd = fd;
	local.n_pes = n;
	memset(&f, 0, sizeof f);
	f.socket = s->run == none && s->name[0] == 'r' && my == n - 1 ? "/nonexistent/engine.sock" : path;
	f.my_pe = my;
	f.n_pes = n;
	f.heap = s->run == none && s->name[0] == 'u' && my == n - 1 ? 8192 : 2 << 20;
	f.log_blocks = s->log_blocks;
	f.exchange = nicless_pes_local_exchange;
	f.arg = &local;
	next = (my + 1) % n;
	before = (my + n - 1) % n;
	error = nicless_pes_open(&pes, &f);
	if (s->run == none) {
		printf("PE %d: %d %s\n", my, error, pes.client.error);
		MUST(error < 0 && pes.client.fd < 0 && !pes.qp);
		exit(0);
	}
	done(error, "nicless_pes_open", __LINE__);
	MUST((me = nicless_pes_host(&pes)) != 0 && nicless_pes_host(&pes) == me);
	s->run();
	nicless_pes_close(&pes);
	exit(0);
}

/* PEs that send other lengths than the others, or too many bytes, get no answer. */
static void lengths(void) {
	static const uint64_t sent[][2] = {{8, 9}, {NICLESS_PES_LOCAL_MOST + 1, 0}};
	char bytes[16] = {0};
	int k, i, pair[2][2], near[2];
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 2; i++) {
			MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]) == 0);
			MUST(send(pair[i][1], &sent[k][i], 8, 0) == 8 && send(pair[i][1], bytes, 9, 0) == 9);
			near[i] = pair[i][0];
		}
		MUST(nicless_pes_local_serve(near, 2) == -EPROTO);
		for (i = 0; i < 2; i++) {
			MUST(recv(pair[i][1], bytes, sizeof bytes, 0) <= 0);
			close(pair[i][1]);
		}
	}
}

int main(int argc, char **argv) {
	const struct scenario *s = 0;
	int fd[MOST], k, pair[2], state, failed = 0;
	size_t j;
	for (j = 0; argc == 4 && j < sizeof list / sizeof *list; j++)
		if (!strcmp(argv[2], list[j].name))
			s = &list[j];
	n = argc == 4 ? atoi(argv[3]) : 0;
	if (!s || n < 1 || n > MOST) {
		fprintf(stderr, "usage: put SOCKET SCENARIO PES, of which 1 to %d are possible\n", MOST);
		return 2;
	}
	lengths();
	for (my = 0; my < n; my++) {
		MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
		fd[my] = pair[0];
		switch (fork()) {
		case -1:
			wrong("fork", __LINE__);
			break;
		case 0:
			for (k = 0; k <= my; k++)
				close(fd[k]); /* or the death of the parent would not end the exchange */
			run(s, argv[1], pair[1]);
		}
		close(pair[1]);
	}
	MUST(nicless_pes_local_serve(fd, n) == 0);
	while (wait(&state) > 0)
		failed |= !WIFEXITED(state) || WEXITSTATUS(state) != 0;
	if (!failed && s->run != none)
		printf("%s: %d PEs: ok\n", s->name, n);
	return failed;
}
