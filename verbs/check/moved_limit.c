/* Registered memory and what is counted for a process. */
#include "moved.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 64 * 1024 * 1024 };

static void resident(void) {
	unsigned long before, after;
	struct ibv_mr *mr;
	uint8_t *at = take(MANY);
	FILE *f;
	pattern_fill(at, 40, 0, MANY);
	MUST((f = fopen("/proc/self/clear_refs", "w"))); /* 5: the maximum begins anew */
	MUST(fputs("5", f) >= 0 && fclose(f) == 0);
	before = kib("status", NULL, "VmRSS:");
	mr = reg(at, MANY);
	after = kib("status", NULL, "VmHWM:");
	if (after > before + 8 * 1024)
		FAIL("%lu KiB were resident before the registration, and up to %lu KiB during it", before, after);
	pattern_check(at, 40, 0, MANY, "the program's memory");
	after = kib("status", NULL, "VmRSS:");
	if (after > before + 8 * 1024)
		FAIL("%lu KiB were resident before the registration, and %lu KiB are after it", before, after);
	SAME(kib("smaps", at, "Rss:"), MANY / 1024);
	DO(ibv_dereg_mr(mr));
	MUST(munmap(at, MANY) == 0);
	after = kib("status", NULL, "VmRSS:");
	if (after + MANY / 1024 > before + 8 * 1024)
		FAIL("%lu KiB were resident before munmap, and %lu KiB are after it", before, after);
}

/* Memory that was never used has no pages, and none for being registered. */
static void untouched(void) {
	uint8_t *at = take(16 * (size_t)MANY);
	unsigned long before = kib("status", NULL, "VmRSS:"), after;
	struct ibv_mr *mr = reg(at, 16 * (size_t)MANY);
	after = kib("status", NULL, "VmRSS:");
	if (after > before + 4 * 1024)
		FAIL("%lu KiB were resident before the registration, and %lu KiB are after it", before, after);
	SAME(at[5 * PAGE], 0);
	SAME(device_read(&dev, mr, at + MANY, PAGE), IBV_WC_SUCCESS);
	SAME(dev.bytes[0], 0);
	at[MANY + 5] = 6;
	SAME(device_read(&dev, mr, at + MANY, PAGE), IBV_WC_SUCCESS);
	SAME(dev.bytes[5], 6);
	DO(ibv_dereg_mr(mr));
	MUST(munmap(at, 16 * (size_t)MANY) == 0);
}

/* Runs a function in a child with a device of its own, whose limits do not matter later. */
static void apart(void (*run)(void)) {
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		device_open(&dev, 1 << 20);
		run();
		device_close(&dev);
		_exit(0);
	}
	join(pid);
}

static void limit(int what, rlim_t value) {
	struct rlimit l = {value, value};
	MUST(setrlimit(what, &l) == 0);
}

static void works(size_t size) {
	uint8_t *at = take(size);
	struct ibv_mr *mr;
	pattern_fill(at, 41, 0, size);
	mr = reg(at, size);
	SAME(is_moved(at), fast);
	pattern_check(at, 41, 0, size, "the program's memory");
	sees(mr, at + size - PAGE, 41, size - PAGE, PAGE);
	DO(ibv_dereg_mr(mr));
	MUST(munmap(at, size) == 0);
}

/* Room is left for one such piece of memory, and not for another one. */
static void little_address_space(void) {
	limit(RLIMIT_AS, kib("status", NULL, "VmSize:") * 1024 + MANY + 16 * 1024 * 1024);
	works(MANY);
	works(MANY);
}

static void little_locked_memory(void) {
	limit(RLIMIT_MEMLOCK, 0);
	works(MANY);
}

static void small_files(void) {
	limit(RLIMIT_FSIZE, PAGE);
	works(100 * PAGE);
}

static void locked(void) {
	uint8_t *at = take(64 * PAGE);
	struct ibv_mr *mr;
	pattern_fill(at, 42, 0, 64 * PAGE);
	if (mlock(at, 64 * PAGE) != 0) {
		MUST(errno == ENOMEM || errno == EPERM); /* there is a limit of less than that */
		munmap(at, 64 * PAGE);
		return;
	}
	SAME(kib("status", NULL, "VmLck:"), 64 * PAGE / 1024);
	mr = reg(at, 64 * PAGE);
	SAME(is_moved(at), fast);
	sees(mr, at, 42, 0, 64 * PAGE);
	SAME(kib("status", NULL, "VmLck:"), 64 * PAGE / 1024); /* still */
	DO(ibv_dereg_mr(mr));
	MUST(munlock(at, 64 * PAGE) == 0);
	SAME(kib("status", NULL, "VmLck:"), 0);
	munmap(at, 64 * PAGE);
}

/* Core dumps have the memory of mappings without the flag dd, if the filter has bit 0 for private
 * memory and bit 1 for shared memory without a file. Both are set by default. */
static void dumped(void) {
	uint8_t *at = take(8 * PAGE);
	struct ibv_mr *mr = reg(at, 8 * PAGE);
	char line[4096];
	unsigned long from, to;
	int there = 0, seen = 0;
	FILE *f;
	at[0] = 1;
	MUST((f = fopen("/proc/self/coredump_filter", "r")) && fgets(line, sizeof line, f));
	fclose(f);
	SAME(strtoul(line, NULL, 16) & 3, 3);
	MUST((f = fopen("/proc/self/smaps", "r")));
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			there = from <= (uintptr_t)at && (uintptr_t)at < to;
		else if (there && strncmp(line, "VmFlags:", 8) == 0) {
			MUST(!strstr(line, " dd"));
			seen = 1;
		}
	fclose(f);
	SAME(seen, 1);
	DO(ibv_dereg_mr(mr));
	munmap(at, 8 * PAGE);
}

static void huge_pages(void) {
	size_t huge = 2 * 1024 * 1024, size = 4 * huge;
	uint8_t *at = take(size + huge),
		*first = (uint8_t *)(((uintptr_t)at + huge - 1) & ~(uintptr_t)(huge - 1));
	struct ibv_mr *mr;
	MUST(madvise(first, size, MADV_HUGEPAGE) == 0 || errno == EINVAL); /* EINVAL: the kernel has none */
	pattern_fill(first, 43, 0, size);
	mr = reg(first + 3 * PAGE, size - 5 * PAGE);
	SAME(is_moved(first + 3 * PAGE), fast);
	pattern_check(first, 43, 0, size, "the program's memory");
	sees(mr, first + huge - PAGE, 43, huge - PAGE, 3 * PAGE);
	DO(ibv_dereg_mr(mr));
	munmap(at, size + huge);
}

/* Buffers that io_uring has pinned are not moved: io_uring would go on using the old pages. */
static void pinned(void) {
	struct { /* struct io_uring_params, of which nothing is set here */
		uint32_t words[30];
	} params;
	uint8_t *at = take(16 * PAGE);
	struct {
		void *base;
		size_t length;
	} buffer = {at, 16 * PAGE};
	struct ibv_mr *mr;
	long ring;
	memset(&params, 0, sizeof params);
	ring = syscall(SYS_io_uring_setup, 4, &params);
	if (ring < 0 || syscall(SYS_io_uring_register, (int)ring, 0, &buffer, 1) != 0) {
		printf("moved: io_uring: %s\n", strerror(errno));
		if (ring >= 0)
			close((int)ring);
		munmap(at, 16 * PAGE);
		return;
	}
	MUST(kib("status", NULL, "VmPin:") > 0);
	pattern_fill(at, 44, 0, 16 * PAGE);
	mr = reg(at, 16 * PAGE);
	MUST(!is_moved(at));
	sees(mr, at, 44, 0, 16 * PAGE);
	DO(ibv_dereg_mr(mr));
	close((int)ring);
	munmap(at, 16 * PAGE);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void timed(void) {
	size_t size = 4 * (size_t)MANY;
	uint8_t *at = take(size);
	struct ibv_mr *mr;
	double from;
	memset(at, 1, size);
	from = now();
	mr = reg(at, size);
	printf("moved: registration of %zu MiB: %.3f s of processor time\n", size >> 20, now() - from);
	DO(ibv_dereg_mr(mr));
	munmap(at, size);
}

void limits(void) {
	cell("resident memory");
	resident();
	cell("untouched memory");
	untouched();
	cell("ulimit -v");
	apart(little_address_space);
	cell("ulimit -l");
	apart(little_locked_memory);
	cell("ulimit -f");
	apart(small_files);
	cell("mlock");
	locked();
	cell("core dumps");
	dumped();
	cell("huge pages");
	huge_pages();
	cell("pinned memory");
	pinned();
	cell("time");
	timed();
}
