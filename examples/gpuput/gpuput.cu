/*
 * Processing elements (PEs) whose kernels put into each other's memory, by nicless/put.h.
 * Each PE is a process with a GPU, real or emulated; README.md says how to run it.
 *
 *   gpuput SOCKET [PES [ROUNDS]]
 *
 * The program starts the PEs, and passes on what they exchange while they connect. After
 * that the host of each PE waits for one kernel, which checks every word.
 */
#include <nicless/pes_local.h>

#include <cuda_runtime.h>
#include <sys/wait.h>

enum {
	MOST_PES = 8,
	MOST_ROUNDS = 1000,
	THREADS = 80, /* two whole warps and half of one */
	WARPS = (THREADS + 31) / 32,
	WORDS = 500
};

/* The objects of the symmetric heap, by the number of their first word. */
enum {
	FROM = 0,            /* WORDS that this PE sends */
	TO = FROM + WORDS,   /* WORDS that the PE before has put */
	BACK = TO + WORDS,   /* WORDS that this PE has got */
	SENT = BACK + WORDS, /* the signal of a put: the round */
	ADDED = SENT + 16,   /* the signal to which each warp of the PE before adds 1 in a round */
	NEXT = ADDED + 16,   /* on PE 0: the next ticket, taken by each lane of all PEs in each round */
	LOCK = NEXT + 16,    /* on PE 0: the PE that was first in a round, and 0 between rounds */
	FIRST = LOCK + 16,   /* on PE 0: how many were first */
	TICKETS = FIRST + 16 /* on PE 0: for each ticket, how often it was taken */
};

/* The result of a kernel. */
struct report {
	unsigned wrong; /* words with a wrong value */
	int error;      /* of an operation, or 0 */
	unsigned line;  /* of that operation */
};

__device__ static inline uint64_t value(int pe, uint64_t round, uint64_t word) {
	return round << 32 | (uint64_t)pe << 24 | word;
}

__device__ static inline void check(struct report *r, uint64_t got, uint64_t want) {
	if (got != want)
		atomicAdd(&r->wrong, 1);
}

__device__ static inline int failed(struct report *r, int error, unsigned line) {
	if (error) {
		r->error = error;
		r->line = line;
	}
	return error;
}

__global__ void open_pe(struct nicless_pe *me, const struct nicless_pe_plan *plan, struct report *r) {
	r->wrong = r->line = 0;
	r->error = nicless_pe_init(me, plan);
}

/* Atomics of all lanes on words of PE 0. */
__device__ static int take_tickets(struct nicless_pe *me, uint64_t *w, struct report *r) {
	uint64_t ticket = 0, was = 0;
	int error = nicless_uint64_atomic_fetch_inc(me, &w[NEXT], 0, &ticket);
	if (error == 0)
		error = nicless_uint64_atomic_inc(me, &w[TICKETS + ticket], 0);
	if (error == 0 && nicless_thread() == 0) {
		error = nicless_uint64_atomic_compare_swap(me, &w[LOCK], 0, (uint64_t)me->my_pe + 1, 0, &was);
		if (error == 0 && was == 0)
			error = nicless_uint64_atomic_inc(me, &w[FIRST], 0);
	}
	return failed(r, error, __LINE__);
}

/* One round of a block. All threads get the same results of the forms for blocks, so all return together. */
__device__ static int play(struct nicless_pe *me, uint64_t *w, uint64_t round, struct report *r) {
	int n = nicless_n_pes(me), my = nicless_my_pe(me), next = (my + 1) % n, before = (my + n - 1) % n;
	unsigned thread = nicless_thread(), k;
	int error;
	for (k = thread; k < WORDS; k += THREADS)
		w[FROM + k] = value(my, round, k);
	error = nicless_putmem_signal_block(me, &w[TO], &w[FROM], 8 * WORDS, &w[SENT], round, NICLESS_SIGNAL_SET,
	                                    next);
	if (failed(r, error, __LINE__))
		return error;
	check(r, nicless_signal_wait_until_block(&w[SENT], NICLESS_CMP_GE, round), round);
	for (k = thread; k < WORDS; k += THREADS)
		check(r, w[TO + k], value(before, round, k));

	if (failed(r, nicless_signal_op_warp(me, &w[ADDED], 1, NICLESS_SIGNAL_ADD, next), __LINE__) == 0)
		nicless_uint64_wait_until_warp(&w[ADDED], NICLESS_CMP_GE, WARPS * round);
	if (thread < 32) { /* the first warp gets what it has been sent */
		failed(r, nicless_getmem_warp(me, &w[BACK], &w[FROM], 8 * WORDS, before), __LINE__);
		for (k = thread; k < WORDS; k += 32)
			check(r, w[BACK + k], value(before, round, k));
	}
	take_tickets(me, w, r);
	error = nicless_barrier_all_block(me);
	if (error == 0 && my == 0 && thread == 0) {
		check(r, w[NEXT], round * THREADS * (uint64_t)n);
		check(r, w[FIRST], round);
		nicless_uint64_atomic_set(me, &w[LOCK], 0, 0);
	}
	if (error == 0)
		error = nicless_barrier_all_block(me);
	failed(r, error, __LINE__);
	return error;
}

/* The PEs are a ring. A launch has one block of THREADS threads. */
__global__ void exchange_words(struct nicless_pe *me, uint64_t *w, uint64_t rounds, struct report *r) {
	uint64_t round, k, tickets = rounds * THREADS * (uint64_t)nicless_n_pes(me);
	/* a mistake is reported to each thread of a group */
	check(r, (uint64_t)nicless_putmem_block(me, w, w, 8, nicless_n_pes(me)), (uint64_t)-EINVAL);
	check(r, (uint64_t)nicless_getmem_warp(me, w, &round, 8, 0), (uint64_t)-EINVAL);
	for (round = 1; round <= rounds; round++)
		if (play(me, w, round, r) != 0)
			return;
	for (k = nicless_thread(); nicless_my_pe(me) == 0 && k < tickets; k += THREADS)
		check(r, w[TICKETS + k], 1);
}

static struct nicless_pes pes;
static int my, n;

static void die(const char *what, const char *why) {
	fprintf(stderr, "gpuput: error: PE %d: %s: %s\n", my, what, why);
	exit(1);
}

static void cuda(cudaError_t error, const char *what) {
	if (error != cudaSuccess)
		die(what, cudaGetErrorString(error));
}

/* Gives the GPU access to memory of this process, and returns its address there, or 0. */
static uint8_t *map(void *at, size_t bytes) {
	void *there = 0;
	if (cudaHostRegister(at, bytes, cudaHostRegisterMapped) != cudaSuccess ||
	    cudaHostGetDevicePointer(&there, at, 0) != cudaSuccess) {
		cudaGetLastError(); /* clears the error */
		return 0;
	}
	return (uint8_t *)there;
}

/* One PE: connects, makes the PE in GPU memory, and runs the kernel. */
static int run(const char *socket, uint64_t rounds, int fd) {
	struct nicless_pes_local local = {fd, n};
	struct nicless_pes_config f = {};
	struct report *there, report;
	uint8_t *queues, *heap, *uar;
	uint64_t *w;
	void *me;
	f.socket = socket;
	f.my_pe = my;
	f.n_pes = n;
	f.heap = 8 * (TICKETS + rounds * THREADS * (uint64_t)n);
	f.exchange = nicless_pes_local_exchange;
	f.arg = &local;
	if (nicless_pes_open(&pes, &f))
		die("open", pes.client.error);
	w = (uint64_t *)nicless_pes_malloc(&pes, f.heap);
	queues = map(pes.queues.mem, pes.queues.size);
	heap = map(pes.heap.mem, pes.heap.size);
	uar = map(pes.client.uar, (size_t)pes.client.device.uar_pages * NICLESS_UAR_PAGE);
	if (!queues || !heap) /* without the UAR pages the GPU posts by records alone, which is enough */
		die("map", "the GPU does not map the queues or the heap");
	cuda(cudaMalloc(&me, nicless_pe_memory(n, (uint64_t)1 << pes.log_blocks)), "memory of the PE");
	cuda(cudaMalloc((void **)&there, sizeof report), "report");
	open_pe<<<1, 1>>>((struct nicless_pe *)me, nicless_pes_plan(&pes, queues, heap, uar), there);
	cuda(cudaDeviceSynchronize(), "open_pe");
	exchange_words<<<1, THREADS>>>((struct nicless_pe *)me,
	                               (uint64_t *)(uintptr_t)nicless_pes_there(w, pes.heap.mem, heap), rounds, there);
	cuda(cudaGetLastError(), "launch");
	cuda(cudaDeviceSynchronize(), "exchange_words");
	cuda(cudaMemcpy(&report, there, sizeof report, cudaMemcpyDeviceToHost), "report");
	if (report.error || report.wrong) {
		fprintf(stderr, "gpuput: error: PE %d: %u words wrong, error %d in line %u\n", my, report.wrong,
		        report.error, report.line);
		return 1;
	}
	nicless_pes_close(&pes);
	return 0;
}

/* Starts a PE in a process of its own, which executes this program: a fork alone could not use CUDA. */
static void start(char **argv, const char *rounds, int fd) {
	char pes_text[16], my_text[16], fd_text[16];
	const char *args[] = {argv[0], argv[1], pes_text, rounds, my_text, fd_text, 0};
	snprintf(pes_text, sizeof pes_text, "%d", n);
	snprintf(my_text, sizeof my_text, "%d", my);
	snprintf(fd_text, sizeof fd_text, "%d", fd);
	execv("/proc/self/exe", (char **)(uintptr_t)args);
	die("/proc/self/exe", strerror(errno));
}

int main(int argc, char **argv) {
	const char *text = argc > 3 ? argv[3] : "20";
	uint64_t rounds = strtoull(text, 0, 10);
	int fd[MOST_PES], pair[2], state, failures = 0;
	n = argc > 2 ? atoi(argv[2]) : 2;
	if (argc < 2 || n < 1 || n > MOST_PES || rounds < 1 || rounds > MOST_ROUNDS) {
		fprintf(stderr, "usage: gpuput SOCKET [PES [ROUNDS]], 1 to %d and 1 to %d, or 2 and 20\n", MOST_PES,
		        MOST_ROUNDS);
		return 2;
	}
	if (argc == 6) { /* this is a PE */
		my = atoi(argv[4]);
		return run(argv[1], rounds, atoi(argv[5]));
	}
	for (my = 0; my < n; my++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
			die("socketpair", strerror(errno));
		if (fork() == 0) {
			fcntl(pair[1], F_SETFD, 0); /* this end stays open in the PE */
			start(argv, text, pair[1]);
		}
		close(pair[1]);
		fd[my] = pair[0];
	}
	if (nicless_pes_local_serve(fd, n))
		fprintf(stderr, "gpuput: error: the PEs disagree about what they exchange\n");
	while (wait(&state) > 0)
		failures += !WIFEXITED(state) || WEXITSTATUS(state) != 0;
	if (failures == 0)
		printf("gpuput: %d PEs, %llu rounds of %d words and %d tickets: ok\n", n, (unsigned long long)rounds,
		       n * WORDS, n * THREADS);
	return failures != 0;
}
