/* pace MODE: measures the speeds with which the speed of verbs programs is compared.
 *
 *   copies SIZE   MB/s of copying memory that the engine cannot map: it is read from one
 *                 process and written to another
 *   relay         microseconds for a word to go from one spinning process to another by way
 *                 of a third process that sleeps now and then; one result for each of several
 *                 lengths of that sleep
 *   socket        microseconds for a request and its answer over a socket, and for a system call (getppid)
 *   control       microseconds for calls of libibverbs; needs a device
 *
 * Prints "name value" lines. A name that ends in -low is that of a low quantile. */
#include "check.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
	qsort(v, n, sizeof *v, ascending);
	return v[n / 2];
}

/* Prints the median of times, and the time that one in ten stays below. On a machine that also
 * does other things, the second is the cost of a call that is not disturbed. */
static void report(const char *name, double *v, size_t n) {
	printf("%s %.2f\n", name, median(v, n));
	printf("%s-low %.2f\n", name, v[n / 10]);
}

/* A child that does nothing; it has a copy of its parent's memory. */
static pid_t holder(void) {
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return child;
}

static void copies(size_t size) {
	enum { RUNS = 15 };
	uint8_t *theirs = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*mine = malloc(size);
	struct iovec local = {mine, size}, remote = {theirs, size};
	long i, n = (long)((256u << 20) / size) + 1;
	double v[RUNS], from;
	int run;
	pid_t a, b;
	MUST(theirs != MAP_FAILED && mine);
	memset(theirs, 1, size);
	a = holder();
	b = holder();
	for (run = 0; run < RUNS; run++) {
		from = now();
		for (i = 0; i < n; i++) {
			MUST(process_vm_readv(a, &local, 1, &remote, 1, 0) == (ssize_t)size);
			MUST(process_vm_writev(b, &local, 1, &remote, 1, 0) == (ssize_t)size);
		}
		v[run] = (double)size * (double)n / (now() - from);
	}
	printf("copies %.0f\n", median(v, RUNS));
	kill(a, SIGKILL);
	kill(b, SIGKILL);
}

/* The words of a relay, each in cache lines of its own. */
struct words {
	struct {
		uint64_t out, pad1[31], in, pad2[31];
	} side[2];
};

static void nap(long ns) {
	struct timespec t = {0, ns};
	if (ns)
		nanosleep(&t, NULL);
}

/* Carries words between the two sides. Sleeps when it has found no word for a while. */
static void carry(struct words *w, long ns) {
	uint64_t last[2] = {0, 0}, v;
	int idle = 0, i;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;) {
		int found = 0;
		for (i = 0; i < 2; i++)
			if ((v = __atomic_load_n(&w->side[i].out, __ATOMIC_ACQUIRE)) != last[i]) {
				__atomic_store_n(&w->side[!i].in, last[i] = v, __ATOMIC_RELEASE);
				found = 1;
			}
		if (found)
			idle = 0;
		else if (ns < 0)
			sched_yield();
		else if (ns && ++idle > 20)
			nap(ns);
	}
}

static void spin(const uint64_t *p, uint64_t v) {
	while (__atomic_load_n(p, __ATOMIC_ACQUIRE) != v)
		;
}

static double relay(long ns) {
	enum { N = 2000 };
	struct words *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t carrier, echo;
	static double v[N];
	uint64_t i;
	double from, end;
	MUST(w != MAP_FAILED);
	if ((carrier = fork()) == 0)
		carry(w, ns);
	if ((echo = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (i = 1;; i++) {
			spin(&w->side[1].in, i);
			__atomic_store_n(&w->side[1].out, i, __ATOMIC_RELEASE);
		}
	}
	end = now() + 2e6;
	for (i = 0; i < N && now() < end; i++) {
		from = now();
		__atomic_store_n(&w->side[0].out, i + 1, __ATOMIC_RELEASE);
		spin(&w->side[0].in, i + 1);
		v[i] = (now() - from) / 2;
	}
	kill(carrier, SIGKILL);
	kill(echo, SIGKILL);
	waitpid(carrier, NULL, 0);
	waitpid(echo, NULL, 0);
	munmap(w, sizeof *w);
	return median(v, i);
}

static void relays(void) {
	/* -1: no sleep; the scheduler treats a sleep below 10000 ns like none. */
	static const long naps[] = {-1, 10000, 20000, 50000};
	size_t i;
	for (i = 0; i < sizeof naps / sizeof *naps; i++) {
		if (naps[i] < 0)
			printf("relay-yield %.2f\n", relay(naps[i]));
		else
			printf("relay-nap-%ldns %.2f\n", naps[i], relay(naps[i]));
		fflush(stdout);
	}
}

static void question(void) {
	enum { N = 2000, SIZE = 300 };
	static double v[N];
	char b[SIZE] = "";
	int fds[2], i;
	pid_t child;
	DO(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds));
	child = fork();
	MUST(child >= 0);
	if (child == 0) {
		close(fds[0]);
		while (read(fds[1], b, SIZE) == SIZE)
			MUST(write(fds[1], b, SIZE) == SIZE);
		_exit(0);
	}
	close(fds[1]);
	for (i = 0; i < N; i++) {
		double from = now();
		MUST(write(fds[0], b, SIZE) == SIZE);
		MUST(read(fds[0], b, SIZE) == SIZE);
		v[i] = now() - from;
	}
	close(fds[0]);
	waitpid(child, NULL, 0);
	report("socket", v, N);
	for (i = 0; i < N; i++) {
		double from = now();
		getppid();
		v[i] = now() - from;
	}
	report("getppid", v, N);
}

#define TIME(name, n, call)          \
	do {                             \
		double v_[n], from_;         \
		int i_;                      \
		for (i_ = 0; i_ < n; i_++) { \
			from_ = now();           \
			call;                    \
			v_[i_] = now() - from_;  \
		}                            \
		report(name, v_, n);         \
	} while (0)

/* Memory that the program has used and not registered yet. */
static void *fresh(size_t size) {
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(at != MAP_FAILED);
	memset(at, 1, size);
	return at;
}

/* Registers n pieces of memory for the first time. */
static void register_fresh(struct ibv_pd *pd, const char *name, size_t size, int n) {
	struct ibv_mr *mr[501];
	double v[501], from;
	int i;
	MUST(n <= 501);
	for (i = 0; i < n; i++) {
		void *at = fresh(size);
		from = now();
		MUST((mr[i] = ibv_reg_mr(pd, at, size, IBV_ACCESS_LOCAL_WRITE)));
		v[i] = now() - from;
	}
	report(name, v, (size_t)n);
	for (i = 0; i < n; i++) {
		void *at = mr[i]->addr;
		DO(ibv_dereg_mr(mr[i]));
		MUST(munmap(at, size) == 0);
	}
}

static void control(void) {
	enum { N = 501, SIZE = 1 << 20 };
	struct ibv_context *context = open_device(NULL);
	struct ibv_pd *pd = ibv_alloc_pd(context), *pds[N];
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0), *cqs[51];
	struct ibv_qp_init_attr init = {NULL, cq, cq, NULL, {16, 16, 1, 1, 0}, IBV_QPT_RC, 0}, got;
	struct ibv_qp *qp = ibv_create_qp(pd, &init), *qps[51];
	struct ibv_qp_attr a = {0};
	struct ibv_port_attr port;
	struct ibv_mr *mr[N];
	union ibv_gid gid;
	uint8_t *at = calloc(1, SIZE);
	MUST(pd && cq && qp && at);
	TIME("query_port", N, DO(ibv_query_port(context, 1, &port)));
	TIME("query_gid", N, DO(ibv_query_gid(context, 1, 0, &gid)));
	TIME("alloc_pd", N, MUST((pds[i_] = ibv_alloc_pd(context))));
	TIME("dealloc_pd", N, DO(ibv_dealloc_pd(pds[i_])));
	TIME("reg_mr_4KiB", N, MUST((mr[i_] = ibv_reg_mr(pd, at, 4096, IBV_ACCESS_LOCAL_WRITE))));
	TIME("dereg_mr_4KiB", N, DO(ibv_dereg_mr(mr[i_])));
	register_fresh(pd, "reg_mr_fresh_4KiB", 4096, N);
	register_fresh(pd, "reg_mr_fresh_1GiB", (size_t)1 << 30, 3);
	TIME("reg_mr_1MiB", N, MUST((mr[i_] = ibv_reg_mr(pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE))));
	TIME("dereg_mr_1MiB", N, DO(ibv_dereg_mr(mr[i_])));
	TIME("query_qp", N, DO(ibv_query_qp(qp, &a, IBV_QP_STATE, &got)));
	memset(&a, 0, sizeof a);
	TIME("modify_qp_reset", N, DO(ibv_modify_qp(qp, &a, IBV_QP_STATE)));
	TIME("create_cq", 51, MUST((cqs[i_] = ibv_create_cq(context, 64, NULL, NULL, 0))));
	TIME("destroy_cq", 51, DO(ibv_destroy_cq(cqs[i_])));
	TIME("create_qp", 51, MUST((qps[i_] = ibv_create_qp(pd, &init))));
	TIME("destroy_qp", 51, DO(ibv_destroy_qp(qps[i_])));
	DO(ibv_close_device(context));
}

int main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "copies") && argc > 2)
		copies((size_t)strtoull(argv[2], NULL, 0));
	else if (!strcmp(mode, "relay"))
		relays();
	else if (!strcmp(mode, "socket"))
		question();
	else if (!strcmp(mode, "control"))
		control();
	else {
		fprintf(stderr, "usage: pace copies SIZE|relay|socket|control\n");
		return 2;
	}
	return 0;
}
