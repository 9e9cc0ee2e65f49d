/* shmem: a program of OpenSHMEM. Each process (PE) puts a row into the memory of every other one and raises a
 * flag there, reads a row back, and adds to counters of PE 0; then all compare the bytes. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, ROW = 3000, ROUNDS = 20 };

static long rows[MOST][ROW], mine[ROW], back[ROW]; /* symmetric: the same address in each PE */
static long flags[MOST], counter, once, sum, part;
static long scratch[SHMEM_REDUCE_MIN_WRKDATA_SIZE > 2 ? SHMEM_REDUCE_MIN_WRKDATA_SIZE : 2];
static long ready[SHMEM_REDUCE_SYNC_SIZE];
static int me, all;

static void fail(const char *what, long got, long want) {
	fprintf(stderr, "shmem: PE %d of %d: %s is %ld, not %ld\n", me, all, what, got, want);
	shmem_global_exit(1);
}

static long value(int from, int round, int i) { return ((long)from << 40) + ((long)round << 20) + i; }

/* Each PE puts to all others, fences, and raises its flag at them. */
static void put_and_flag(int round) {
	int pe, i;
	for (i = 0; i < ROW; i++)
		mine[i] = value(me, round, i);
	for (pe = 0; pe < all; pe++) {
		shmem_long_put(rows[me], mine, ROW, pe);
		shmem_fence();
		shmem_long_p(&flags[me], round, pe);
	}
	for (pe = 0; pe < all; pe++) {
		shmem_long_wait_until(&flags[pe], SHMEM_CMP_GE, round);
		for (i = 0; i < ROW; i++)
			if (rows[pe][i] != value(pe, round, i))
				fail("what was put", rows[pe][i], value(pe, round, i));
	}
}

static void get_back(int round) {
	int pe = (me + 1) % all, i;
	shmem_long_get(back, mine, ROW, pe);
	for (i = 0; i < ROW; i++)
		if (back[i] != value(pe, round, i))
			fail("what was got", back[i], value(pe, round, i));
}

static void add(int round) {
	long was = shmem_long_atomic_fetch_add(&counter, 1, 0);
	if (was < (long)(round - 1) * all || was >= (long)round * all)
		fail("the counter before", was, (long)(round - 1) * all);
	shmem_long_atomic_add(&sum, me + 1, 0);
	shmem_long_atomic_compare_swap(&once, round - 1, round, 0); /* only the first PE of a round swaps */
	shmem_quiet();
}

int main(void) {
	int round, i;
	shmem_init();
	me = shmem_my_pe();
	all = shmem_n_pes();
	if (all > MOST)
		fail("the number of PEs", all, MOST);
	for (i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
		ready[i] = SHMEM_SYNC_VALUE;
	shmem_barrier_all();
	for (round = 1; round <= ROUNDS; round++) {
		put_and_flag(round);
		get_back(round);
		add(round);
		shmem_barrier_all();
		if (me == 0 && (counter != (long)round * all || once != round || sum != (long)round * all * (all + 1) / 2))
			fail("the counter", counter, (long)round * all);
		shmem_barrier_all();
	}
	part = me + 1;
	shmem_long_sum_to_all(&sum, &part, 1, 0, 0, all, scratch, ready);
	if (sum != (long)all * (all + 1) / 2)
		fail("the sum of all", sum, (long)all * (all + 1) / 2);
	shmem_barrier_all();
	if (me == 0)
		printf("shmem: %d PEs: ok\n", all);
	shmem_finalize();
	return 0;
}
