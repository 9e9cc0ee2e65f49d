/* mpi: processes of MPI move data in every way that programs commonly use, and check every
 * byte. It is built with the mpicc of an implementation and started by its mpirun, whose
 * arguments and environment say what carries the data. */
#include "check.h"

#include <mpi.h>

enum { MOST = 4 << 20, WINDOW = 8 };

static const int sizes[] = {0, 1, 8, 100, 1024, 4000, 8192, 20000, 65536, 262145, 1 << 20, MOST};

static int rank, ranks;
static uint8_t *from, *to;

#define MPI(call)                                \
	do {                                         \
		int error_ = (call);                     \
		if (error_ != MPI_SUCCESS)               \
			FAIL("%s: error %d", #call, error_); \
	} while (0)

static uint64_t seed(int source, int target, int n) {
	return (uint64_t)source << 48 | (uint64_t)target << 32 | (uint64_t)n;
}

/* Each rank sends to the next one and receives from the one before. */
static void ring(int size) {
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, n;
	MPI_Status status;
	pattern_fill(from, seed(rank, next, size), 0, (size_t)size);
	memset(to, 0, (size_t)size);
	MPI(MPI_Sendrecv(from, size, MPI_BYTE, next, 1, to, size, MPI_BYTE, before, 1, MPI_COMM_WORLD, &status));
	MPI(MPI_Get_count(&status, MPI_BYTE, &n));
	SAME(n, size);
	pattern_check(to, seed(before, rank, size), 0, (size_t)size, "sendrecv");
}

/* Each rank sends several messages to each other one. They are received by tag, from any sender, in another
 * order than they were sent. */
static void crowd(int size) {
	MPI_Request in[WINDOW * 16], out[WINDOW * 16];
	MPI_Status status[WINDOW * 16], sent[WINDOW * 16];
	int i, r, n = 0;
	for (i = WINDOW; i-- > 0;)
		for (r = 0; r < ranks - 1; r++, n++)
			MPI(MPI_Irecv(to + (size_t)n * (size_t)size, size, MPI_BYTE, MPI_ANY_SOURCE, 100 + i,
			              MPI_COMM_WORLD, &in[n]));
	for (n = 0, i = 0; i < WINDOW; i++)
		for (r = 0; r < ranks; r++) {
			uint8_t *at = from + (size_t)n * (size_t)size;
			if (r == rank)
				continue;
			pattern_fill(at, seed(rank, r, i), 0, (size_t)size);
			MPI(MPI_Isend(at, size, MPI_BYTE, r, 100 + i, MPI_COMM_WORLD, &out[n++]));
		}
	MPI(MPI_Waitall(n, in, status));
	MPI(MPI_Waitall(n, out, sent));
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	for (i = 0; i < n; i++)
		pattern_check(to + (size_t)i * (size_t)size,
			seed(status[i].MPI_SOURCE, rank, status[i].MPI_TAG - 100), 0, (size_t)size, "from anybody");
}

/* A column of a matrix, which is not contiguous, becomes a row. */
static void vector(void) {
	enum { N = 300 };
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i;
	double *matrix = calloc(N * N, sizeof *matrix), row[N];
	MPI_Datatype column;
	MUST(matrix);
	for (i = 0; i < N; i++)
		matrix[i * N + 7] = rank * 1000 + i;
	MPI(MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column));
	MPI(MPI_Type_commit(&column));
	MPI(MPI_Sendrecv(matrix + 7, 1, column, next, 2, row, N, MPI_DOUBLE, before, 2, MPI_COMM_WORLD,
	                 MPI_STATUS_IGNORE));
	for (i = 0; i < N; i++)
		SAME(row[i], before * 1000 + i);
	MPI(MPI_Type_free(&column));
	free(matrix);
}

static void collectives(int n) {
	int64_t *a = calloc((size_t)n * (size_t)ranks, sizeof *a),
		*b = calloc((size_t)n * (size_t)ranks, sizeof *b);
	int i, r;
	MUST(a && b);
	for (i = 0; i < n; i++)
		a[i] = rank == ranks - 1 ? i * 3 + 1 : 0;
	MPI(MPI_Bcast(a, n, MPI_INT64_T, ranks - 1, MPI_COMM_WORLD));
	for (i = 0; i < n; i++)
		SAME(a[i], i * 3 + 1);
	for (i = 0; i < n; i++)
		a[i] = (int64_t)i << rank;
	MPI(MPI_Allreduce(a, b, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
	for (i = 0; i < n; i++)
		SAME(b[i], (int64_t)i * ((1 << ranks) - 1));
	for (i = 0; i < n * ranks; i++)
		a[i] = (int64_t)rank << 32 | i;
	MPI(MPI_Alltoall(a, n, MPI_INT64_T, b, n, MPI_INT64_T, MPI_COMM_WORLD));
	for (r = 0; r < ranks; r++)
		for (i = 0; i < n; i++)
			SAME(b[r * n + i], (int64_t)r << 32 | (rank * n + i));
	free(a);
	free(b);
}

/* Each rank adds 1 ten times to a word of 4 bytes of rank 0, by comparing and swapping. */
static void swaps(MPI_Win words, MPI_Aint at) {
	int32_t seen = 0, want, was;
	int i;
	for (i = 0; i < 10;) {
		want = seen + 1;
		MPI(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, words));
		MPI(MPI_Compare_and_swap(&want, &seen, &was, MPI_INT32_T, 0, at, words));
		MPI(MPI_Win_unlock(0, words));
		i += was == seen;
		seen = was == seen ? want : was;
	}
}

/* One-sided: each rank writes to the next one, reads that back, and all add to two counters. */
static void window(int size) {
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i;
	int64_t *counter = calloc(2, sizeof *counter), one = 1, was;
	uint8_t *memory = calloc(1, (size_t)size);
	MPI_Win bytes, words;
	MUST(counter && memory);
	MPI(MPI_Win_create(memory, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &bytes));
	MPI(MPI_Win_create(counter, 2 * sizeof *counter, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &words));
	pattern_fill(from, seed(rank, next, size), 0, (size_t)size);
	MPI(MPI_Win_fence(0, bytes));
	MPI(MPI_Put(from, size, MPI_BYTE, next, 0, size, MPI_BYTE, bytes));
	MPI(MPI_Win_fence(0, bytes));
	pattern_check(memory, seed(before, rank, size), 0, (size_t)size, "put");
	memset(to, 0, (size_t)size);
	MPI(MPI_Win_fence(0, bytes));
	MPI(MPI_Get(to, size, MPI_BYTE, next, 0, size, MPI_BYTE, bytes));
	MPI(MPI_Win_fence(0, bytes));
	pattern_check(to, seed(rank, next, size), 0, (size_t)size, "get");
	MPI(MPI_Win_fence(0, words));
	for (i = 0; i < 10; i++) {
		MPI(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, words));
		MPI(MPI_Fetch_and_op(&one, &was, MPI_INT64_T, 0, 0, MPI_SUM, words));
		MPI(MPI_Win_unlock(0, words));
	}
	swaps(words, sizeof *counter);
	MPI(MPI_Win_fence(0, words));
	if (rank == 0) {
		SAME(counter[0], 10 * ranks);
		SAME(counter[1], 10 * ranks); /* the 4 bytes behind the second word are 0 */
	}
	MPI(MPI_Win_fence(0, words));
	MPI(MPI_Win_free(&bytes));
	MPI(MPI_Win_free(&words));
	free(counter);
	free(memory);
}

int main(int argc, char **argv) {
	size_t i;
	MPI(MPI_Init(&argc, &argv));
	MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
	MUST(ranks > 1 && ranks <= 16);
	MUST((from = malloc(2 * MOST)) && (to = malloc(2 * MOST)));
	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		snprintf(doing, sizeof doing, "rank %d of %d, %d bytes", rank, ranks, sizes[i]);
		ring(sizes[i]);
		if ((size_t)sizes[i] * WINDOW * (size_t)(ranks - 1) <= 2 * MOST)
			crowd(sizes[i]);
	}
	snprintf(doing, sizeof doing, "rank %d of %d, vector", rank, ranks);
	vector();
	snprintf(doing, sizeof doing, "rank %d of %d, collectives", rank, ranks);
	collectives(1), collectives(100), collectives(20000);
	snprintf(doing, sizeof doing, "rank %d of %d, windows", rank, ranks);
	window(8), window(10000), window(1 << 20);
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	MPI(MPI_Finalize());
	if (rank == 0)
		printf("mpi: %d ranks: ok\n", ranks);
	return 0;
}
