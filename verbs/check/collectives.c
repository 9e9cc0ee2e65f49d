/* collectives: ranks of MPI, any number of them, reduce to all and exchange with all, from messages that UCX
 * copies to those that it moves by RDMA, and check every word. Then rank 0 waits for the end of its standard
 * input, with all connections open, so that whoever started the job can look at its devices. */
#include "check.h"

#include <mpi.h>
#include <time.h>
#include <unistd.h>

/* Words of 8 bytes: of a reduction, and of what each rank sends to each other one. */
static const int reduced[] = {1, 100, 1024, 32768}, exchanged[] = {1, 100, 1024, 8192};

enum { KINDS = sizeof reduced / sizeof *reduced, ROUNDS = 2 };

static int rank, ranks;

#define MPI(call)                                \
	do {                                         \
		int error_ = (call);                     \
		if (error_ != MPI_SUCCESS)               \
			FAIL("%s: error %d", #call, error_); \
	} while (0)

/* Returns a word that differs for each sender, receiver, round and index (the last step of SplitMix64), so
 * that a sum with one rank's share missing, or there twice, is another. */
static uint64_t word(int from, int to, int round, int i) {
	uint64_t x = (uint64_t)from << 48 ^ (uint64_t)to << 32 ^ (uint64_t)round << 24 ^ (uint64_t)i;
	x = (x + 1) * 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Sums wrap at 64 bits, as those of MPI_UINT64_T do. */
static void allreduce(int n, int round) {
	uint64_t *own = calloc((size_t)n, sizeof *own), *sum = calloc((size_t)n, sizeof *sum), want;
	int i, r;
	MUST(own && sum);
	for (i = 0; i < n; i++)
		own[i] = word(rank, 0xffff, round, i);
	MPI(MPI_Allreduce(own, sum, n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
	for (i = 0; i < n; i++) {
		for (want = 0, r = 0; r < ranks; r++)
			want += word(r, 0xffff, round, i);
		SAME(sum[i], want);
	}
	free(own);
	free(sum);
}

static void alltoall(int n, int round) {
	size_t words = (size_t)n * (size_t)ranks;
	uint64_t *out = calloc(words, sizeof *out), *in = calloc(words, sizeof *in);
	int i, r;
	MUST(out && in);
	for (r = 0; r < ranks; r++)
		for (i = 0; i < n; i++)
			out[r * n + i] = word(rank, r, round, i);
	MPI(MPI_Alltoall(out, n, MPI_UINT64_T, in, n, MPI_UINT64_T, MPI_COMM_WORLD));
	for (r = 0; r < ranks; r++)
		for (i = 0; i < n; i++)
			SAME(in[r * n + i], word(r, rank, round, i));
	free(out);
	free(in);
}

/* Waits for all ranks without using a processor, as MPI_Barrier would. */
static void quiet_barrier(void) {
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	MPI_Request all;
	int done = 0;
	MPI(MPI_Ibarrier(MPI_COMM_WORLD, &all));
	for (;;) {
		MPI(MPI_Test(&all, &done, MPI_STATUS_IGNORE));
		if (done)
			return;
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv) {
	int round, k;
	char byte;
	MPI(MPI_Init(&argc, &argv));
	MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
	for (round = 0; round < ROUNDS; round++)
		for (k = 0; k < KINDS; k++) {
			snprintf(doing, sizeof doing, "rank %d of %d, allreduce of %d words, round %d", rank, ranks, reduced[k],
			         round);
			allreduce(reduced[k], round);
			snprintf(doing, sizeof doing, "rank %d of %d, alltoall of %d words, round %d", rank, ranks, exchanged[k],
			         round);
			alltoall(exchanged[k], round);
		}
	snprintf(doing, sizeof doing, "rank %d of %d, the end", rank, ranks);
	quiet_barrier();
	if (rank == 0) {
		printf("collectives: %d ranks: all is right\n", ranks);
		fflush(stdout);
		while (read(0, &byte, 1) > 0)
			;
	}
	quiet_barrier();
	MPI(MPI_Finalize());
	return 0;
}
