/* moved MODE: what a program may do with registered memory, in both modes: fast, in which the
 * pages are moved into memory that the engine maps, and slow, in which the kernel copies. Each
 * cell is a row of the table in docs/reference/registered-memory.md, by its name. */
#include "moved.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct device dev;
bool fast;

static unsigned cells;

void cell(const char *name) {
	if (cells++)
		printf("moved: %s: ok\n", doing);
	snprintf(doing, sizeof doing, "%s", name);
	fflush(stdout);
}

uint8_t *take(size_t size) {
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(at != MAP_FAILED);
	return at;
}

struct ibv_mr *reg(void *at, size_t size) {
	struct ibv_mr *mr = ibv_reg_mr(dev.pd, at, size, ALL);
	if (!mr)
		FAIL("ibv_reg_mr of %zu bytes at %p: %s", size, at, strerror(errno));
	return mr;
}

void sees(const struct ibv_mr *mr, const void *at, uint64_t seed, size_t first, size_t n) {
	SAME(device_read(&dev, mr, at, n), IBV_WC_SUCCESS);
	pattern_check(dev.bytes, seed, first, n, "what the device sees");
}

unsigned long kib(const char *file, const void *at, const char *field) {
	char path[64], line[8192];
	unsigned long from, to, value = 0;
	bool there = at == NULL, found = false;
	FILE *f;
	snprintf(path, sizeof path, "/proc/self/%s", file);
	MUST((f = fopen(path, "r")));
	while (!found && fgets(line, sizeof line, f)) {
		if (at && sscanf(line, "%lx-%lx ", &from, &to) == 2)
			there = from <= (uintptr_t)at && (uintptr_t)at < to;
		else if (there && strncmp(line, field, strlen(field)) == 0) {
			value = strtoul(line + strlen(field), NULL, 10);
			found = true;
		}
	}
	fclose(f);
	if (!found)
		FAIL("%s has no %s for %p", path, field, at);
	return value;
}

bool is_moved(const void *at) {
	char line[8192];
	unsigned long from, to;
	bool is = false;
	FILE *f;
	MUST((f = fopen("/proc/self/maps", "r")));
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2 && from <= (uintptr_t)at && (uintptr_t)at < to)
			is = strstr(line, "/memfd:nicless:") != NULL;
	fclose(f);
	return is;
}

void join(int pid) {
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	SAME(status, 0);
}

/* The contents stay, at the same address, and program and device see the same memory. */
static void contents(void) {
	size_t size = 3 * 1024 * 1024 + 5 * PAGE, n = 100 * 1000, i;
	uint8_t *at = take(size);
	struct ibv_mr *mr, *again, *part;
	for (i = 0; i + n < size; i += n)
		pattern_fill(at + i, 1, i, n);
	mr = reg(at + 100, size - 200);
	SAME(is_moved(at), fast);
	for (i = 0; i + n < size; i += n)
		pattern_check(at + i, 1, i, n, "the program's memory");
	sees(mr, at + 2 * n, 1, 2 * n, n);
	pattern_fill(at + n, 2, 0, n);
	sees(mr, at + n, 2, 0, n);
	pattern_fill(dev.bytes, 3, 0, n);
	SAME(device_write(&dev, mr, at + 7 * n + 3, n), IBV_WC_SUCCESS);
	pattern_check(at + 7 * n + 3, 3, 0, n, "what the device wrote");

	/* registered again, as a whole and in part, in this context and after the first is gone */
	again = reg(at, PAGE);
	part = reg(at + size - PAGE, PAGE);
	DO(ibv_dereg_mr(mr));
	sees(again, at, 1, 0, PAGE);
	DO(ibv_dereg_mr(again));
	DO(ibv_dereg_mr(part));
	pattern_check(at + 7 * n + 3, 3, 0, n, "after deregistration");
	mr = reg(at, size);
	sees(mr, at + n, 2, 0, n);
	DO(ibv_dereg_mr(mr));
	MUST(munmap(at, size) == 0);
}

/* Memory that cannot be moved stays where it is, and works. */
static void stays(void) {
	uint8_t local[3 * PAGE];
	uint8_t *shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint8_t *constant = take(4 * PAGE);
	struct ibv_mr *mr;
	MUST(shared != MAP_FAILED);
	pattern_fill(local, 4, 0, sizeof local);
	mr = reg(local, sizeof local);
	MUST(!is_moved(local + PAGE));
	sees(mr, local, 4, 0, sizeof local);
	DO(ibv_dereg_mr(mr));

	pattern_fill(shared, 5, 0, 4 * PAGE);
	mr = reg(shared, 4 * PAGE);
	MUST(!is_moved(shared));
	sees(mr, shared, 5, 0, 4 * PAGE);
	DO(ibv_dereg_mr(mr));

	pattern_fill(constant, 6, 0, 4 * PAGE);
	MUST(mprotect(constant, 4 * PAGE, PROT_READ) == 0);
	MUST((mr = ibv_reg_mr(dev.pd, constant, 4 * PAGE, IBV_ACCESS_REMOTE_READ)));
	MUST(!is_moved(constant));
	sees(mr, constant, 6, 0, 4 * PAGE);
	DO(ibv_dereg_mr(mr));
	MUST(!ibv_reg_mr(dev.pd, constant, 4 * PAGE, ALL)); /* it may not be written */
	munmap(constant, 4 * PAGE);
	munmap(shared, 4 * PAGE);
}

static volatile bool stop;
static uint8_t *of_thread;

static void *with_stack(void *arg) {
	uint8_t local[300 * 1024];
	(void)arg;
	pattern_fill(local, 7, 0, sizeof local);
	__atomic_store_n(&of_thread, local, __ATOMIC_RELEASE);
	while (!stop)
		usleep(100);
	pattern_check(local, 7, 0, sizeof local, "the thread's stack");
	return NULL;
}

/* The stack of another thread stays where it is too. */
static void stacks(void) {
	pthread_t thread;
	struct ibv_mr *mr;
	stop = false;
	MUST(pthread_create(&thread, NULL, with_stack, NULL) == 0);
	while (!__atomic_load_n(&of_thread, __ATOMIC_ACQUIRE))
		usleep(100);
	mr = reg(of_thread, 300 * 1024);
	MUST(!is_moved(of_thread));
	sees(mr, of_thread, 7, 0, 300 * 1024);
	DO(ibv_dereg_mr(mr));
	stop = true;
	pthread_join(thread, NULL);
}

/* A CPU's atomics and the device's on the same word: all are counted if the memory was moved. */
enum { ADDS = 2000 };
static uint64_t *word;

static void *adds(void *arg) {
	(void)arg;
	while (!stop)
		__atomic_fetch_add(word, 1u << 16, __ATOMIC_RELAXED);
	return NULL;
}

static void atomics(void) {
	pthread_t thread;
	struct ibv_device_attr a;
	uint64_t before;
	struct ibv_mr *mr;
	int i;
	word = (uint64_t *)take(PAGE);
	mr = reg(word, PAGE);
	DO(ibv_query_device(dev.context, &a));
	SAME(a.atomic_cap, IBV_ATOMIC_HCA); /* not for all memory are the CPU's atomics counted */
	stop = false;
	if (fast)
		MUST(pthread_create(&thread, NULL, adds, NULL) == 0);
	for (i = 0; i < ADDS; i++)
		SAME(device_add(&dev, mr, word, 1), IBV_WC_SUCCESS);
	stop = true;
	if (fast)
		pthread_join(thread, NULL);
	before = *word;
	SAME(before & 0xffff, ADDS);
	DO(ibv_dereg_mr(mr));
	MUST(munmap(word, PAGE) == 0);
}

int main(int argc, char **argv) {
	fast = argc > 1 && strcmp(argv[1], "fast") == 0;
	MUST(fast || (argc > 1 && strcmp(argv[1], "slow") == 0));
	device_open(&dev, 1 << 20);
	cell("contents");
	contents();
	cell("stays");
	stays();
	cell("stacks");
	stacks();
	cell("atomics");
	atomics();
	forks();
	heaps();
	mappings();
	limits();
	cell("end");
	device_close(&dev);
	printf("moved: %u cells: ok\n", cells - 1);
	return 0;
}
