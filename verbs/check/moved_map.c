/* Calls that change the mapping of registered memory. */
#include "moved.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIZE = 16 * PAGE };

static void zeros(const uint8_t *at, size_t n, const char *what) {
	size_t i;
	for (i = 0; i < n; i++)
		if (at[i])
			FAIL("%s: byte %zu of %zu is %#x, not 0", what, i, n, at[i]);
}

/* The status of a READ of memory that the program does not have there any more: pages that were
 * moved are the region's until it ends, as pinned pages are. */
static enum ibv_wc_status gone(const struct ibv_mr *mr, const uint8_t *at, uint64_t seed) {
	enum ibv_wc_status status = device_read(&dev, mr, at, PAGE);
	if (status == IBV_WC_SUCCESS)
		pattern_check(dev.bytes, seed, 0, PAGE, "pages that the region keeps");
	return status;
}

static void dont_need(int (*advise)(void *, size_t, int)) {
	uint8_t *at = take(SIZE);
	struct ibv_mr *mr;
	pattern_fill(at, 20, 0, SIZE);
	mr = reg(at, SIZE);
	DO(advise(at, 4 * PAGE, MADV_DONTNEED));
	zeros(at, 4 * PAGE, "memory that was given up");
	pattern_check(at + 4 * PAGE, 20, 4 * PAGE, SIZE - 4 * PAGE, "the rest");
	SAME(device_read(&dev, mr, at, PAGE), IBV_WC_SUCCESS);
	if (fast)
		pattern_check(dev.bytes, 20, 0, PAGE, "pages that the region keeps");
	else
		zeros(dev.bytes, PAGE, "what the kernel copies");
	sees(mr, at + 4 * PAGE, 20, 4 * PAGE, PAGE);
	DO(ibv_dereg_mr(mr));
	pattern_fill(at, 21, 0, SIZE);
	mr = reg(at, SIZE); /* a region of the memory that is there now */
	sees(mr, at, 21, 0, SIZE);
	DO(ibv_dereg_mr(mr));
	DO(advise(at, SIZE, MADV_DONTNEED));
	zeros(at, SIZE, "memory that was given up after its region");
	munmap(at, SIZE);
}

static int by_system_call(void *at, size_t n, int advice) { return (int)syscall(SYS_madvise, at, n, advice); }

static void advice(void) {
	static const int others[] = {MADV_FREE, MADV_COLD, MADV_WILLNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
		MADV_SEQUENTIAL, MADV_NORMAL, MADV_DONTDUMP, MADV_DODUMP};
	uint8_t *at = take(SIZE);
	struct ibv_mr *mr;
	size_t i;
	pattern_fill(at, 22, 0, SIZE);
	mr = reg(at, SIZE);
	for (i = 0; i < sizeof others / sizeof *others; i++)
		if (madvise(at, SIZE, others[i]) != 0)
			FAIL("advice %d: %s", others[i], strerror(errno));
	pattern_fill(at, 23, 0, SIZE); /* after MADV_FREE the contents may have gone */
	sees(mr, at, 23, 0, SIZE);
	MUST(munmap(at + SIZE - PAGE, PAGE) == 0);
	errno = 0;
	MUST(madvise(at, SIZE, MADV_DONTNEED) == -1 && errno == ENOMEM); /* a hole; the rest is given up */
	zeros(at, SIZE - PAGE, "memory before the hole");
	DO(ibv_dereg_mr(mr));
	munmap(at, SIZE);
}

static void unmap(void) {
	uint8_t *at = take(SIZE), *again;
	struct ibv_mr *mr, *other;
	pattern_fill(at, 24, 0, SIZE);
	mr = reg(at, SIZE);
	MUST(munmap(at, SIZE) == 0);
	SAME(gone(mr, at, 24), fast ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	again = mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	MUST(again == at);
	zeros(at, SIZE, "new memory at the same address");
	pattern_fill(at, 25, 0, SIZE);
	other = reg(at, SIZE); /* while the old region is there */
	sees(other, at, 25, 0, SIZE);
	if (fast) {
		pattern_fill(dev.bytes, 26, 0, PAGE);
		SAME(device_write(&dev, mr, at, PAGE), IBV_WC_SUCCESS);
		pattern_check(at, 25, 0, SIZE, "the new memory");
	}
	DO(ibv_dereg_mr(mr));
	sees(other, at, 25, 0, SIZE);
	DO(ibv_dereg_mr(other));
	munmap(at, SIZE);
}

/* Memory of a region is unmapped in part, and new memory there is registered together with pages
 * that are still the region's. */
static void unmap_partly(void) {
	uint8_t *at = take(SIZE);
	struct ibv_mr *mr, *other;
	pattern_fill(at, 40, 0, SIZE);
	mr = reg(at, SIZE);
	MUST(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
	other = reg(at, 2 * PAGE);
	pattern_fill(at, 41, 0, 2 * PAGE);
	sees(other, at, 41, 0, 2 * PAGE);
	sees(mr, at + PAGE, 41, PAGE, PAGE);
	pattern_fill(dev.bytes, 42, 0, PAGE);
	SAME(device_write(&dev, mr, at + PAGE, PAGE), IBV_WC_SUCCESS);
	pattern_check(at + PAGE, 42, 0, PAGE, "a page of both regions");
	DO(ibv_dereg_mr(mr));
	DO(ibv_dereg_mr(other));
	munmap(at, SIZE);
}

/* Queues in memory at the addresses of a region that has lost them, as caches of registrations
 * leave such regions. */
static void queue_there(void) {
	enum { LARGE = 16 * 1024 * 1024 };
	uint8_t *at = take(LARGE);
	struct ibv_mr *mr = reg(at, LARGE);
	struct ibv_cq *cq[8];
	size_t i;
	MUST(munmap(at, LARGE) == 0);
	for (i = 0; i < 8; i++) {
		cq[i] = ibv_create_cq(dev.context, 4096, NULL, NULL, 0);
		if (!cq[i])
			FAIL("CQ %zu where a region was: %s", i, strerror(errno));
	}
	for (i = 0; i < 8; i++)
		DO(ibv_destroy_cq(cq[i]));
	DO(ibv_dereg_mr(mr));
}

static void enlarge(void *(*again)(void *, size_t, size_t)) {
	uint8_t *at = take(SIZE), *now;
	struct ibv_mr *mr;
	pattern_fill(at, 27, 0, SIZE);
	mr = reg(at, SIZE);
	now = again(at, SIZE, 64 * SIZE);
	MUST(now != MAP_FAILED);
	pattern_check(now, 27, 0, SIZE, "memory that was enlarged");
	zeros(now + SIZE, 63 * SIZE, "the new part");
	pattern_fill(now, 28, 0, 64 * SIZE);
	pattern_check(now, 28, 0, 64 * SIZE, "all of it");
	if (fast) /* the pages have moved in the program, and are still the region's */
		sees(mr, at, 28, 0, SIZE);
	DO(ibv_dereg_mr(mr));
	mr = reg(now, 64 * SIZE);
	sees(mr, now, 28, 0, SIZE);
	sees(mr, now + 63 * SIZE, 28, 63 * SIZE, SIZE);
	now = again(now, 64 * SIZE, SIZE);
	MUST(now != MAP_FAILED);
	pattern_check(now, 28, 0, SIZE, "memory that was made smaller");
	DO(ibv_dereg_mr(mr));
	munmap(now, SIZE);
}

static void *remap(void *at, size_t n, size_t wanted) { return mremap(at, n, wanted, MREMAP_MAYMOVE); }
static void *remap_by_system_call(void *at, size_t n, size_t wanted) {
	return (void *)syscall(SYS_mremap, at, n, wanted, MREMAP_MAYMOVE, NULL);
}

/* Only a part of the mapping is registered. */
static void enlarge_around(void) {
	uint8_t *at = take(SIZE), *to = take(2 * SIZE), *now;
	struct ibv_mr *mr;
	pattern_fill(at, 29, 0, SIZE);
	mr = reg(at + 3 * PAGE, 4 * PAGE);
	now = mremap(at, SIZE, 4 * SIZE, MREMAP_MAYMOVE);
	MUST(now != MAP_FAILED);
	pattern_check(now, 29, 0, SIZE, "memory that was enlarged");
	zeros(now + SIZE, 3 * SIZE, "the new part");
	MUST(mremap(now, 4 * SIZE, SIZE, 0) == now);
	pattern_check(now, 29, 0, SIZE, "memory that was made smaller");
	MUST(mremap(now, SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	pattern_check(to, 29, 0, SIZE, "memory that was moved");
	if (fast)
		sees(mr, at + 3 * PAGE, 29, 3 * PAGE, 4 * PAGE);
	DO(ibv_dereg_mr(mr));
	munmap(to, 2 * SIZE);
}

static void reallocate(void) {
	size_t small = 300 * 1000, large = 40 * 1000 * 1000;
	uint8_t *at = malloc(small);
	struct ibv_mr *mr;
	MUST(at);
	pattern_fill(at, 30, 0, small);
	mr = reg(at, small);
	DO(ibv_dereg_mr(mr));
	MUST((at = realloc(at, large)));
	pattern_check(at, 30, 0, small, "memory after realloc");
	pattern_fill(at, 31, 0, large);
	mr = reg(at, large);
	sees(mr, at, 31, 0, 100000);
	DO(ibv_dereg_mr(mr));
	MUST((at = realloc(at, small)));
	pattern_check(at, 31, 0, small, "memory after realloc to less");
	free(at);
}

static sigjmp_buf out;
static void fault(int signal) { siglongjmp(out, signal); }

/* Returns the signal that a store raises. */
static int stores(uint8_t *at) {
	int signal = sigsetjmp(out, 1);
	if (signal == 0)
		*(volatile uint8_t *)at = *(volatile uint8_t *)at;
	return signal;
}

static void protect(void) {
	struct sigaction now, before;
	uint8_t *at = take(SIZE);
	struct ibv_mr *mr;
	memset(&now, 0, sizeof now);
	now.sa_handler = fault;
	pattern_fill(at, 32, 0, SIZE);
	mr = reg(at, SIZE);
	MUST(sigaction(SIGSEGV, &now, &before) == 0);
	MUST(mprotect(at, SIZE, PROT_READ) == 0);
	SAME(stores(at), SIGSEGV);
	pattern_check(at, 32, 0, SIZE, "memory that may be read");
	pattern_fill(dev.bytes, 33, 0, PAGE);
	SAME(device_write(&dev, mr, at, PAGE), fast ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	MUST(mprotect(at, SIZE, PROT_NONE) == 0);
	SAME(stores(at), SIGSEGV);
	SAME(device_read(&dev, mr, at, PAGE), fast ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	MUST(mprotect(at, SIZE, PROT_READ | PROT_WRITE) == 0);
	SAME(stores(at), 0);
	MUST(sigaction(SIGSEGV, &before, NULL) == 0);
	pattern_check(at, fast ? 33 : 32, 0, PAGE, "memory that may be written again");
	pattern_fill(at, 34, 0, SIZE);
	sees(mr, at, 34, 0, SIZE);
	MUST(mprotect(at, SIZE, PROT_READ | PROT_EXEC) == 0);
	MUST(mprotect(at, SIZE, PROT_READ | PROT_WRITE) == 0);
	DO(ibv_dereg_mr(mr));
	munmap(at, SIZE);
}

static void break_of_heap(void) {
	uint8_t *from = sbrk(0), *at = (uint8_t *)(((uintptr_t)from + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	struct ibv_mr *mr;
	MUST(brk(at + SIZE) == 0);
	pattern_fill(at, 35, 0, SIZE);
	mr = reg(at, SIZE);
	MUST(!is_moved(at)); /* the library does not know that these pages are not malloc's */
	sees(mr, at, 35, 0, SIZE);
	MUST(brk(at + SIZE / 2) == 0);
	MUST(brk(at + 2 * SIZE) == 0);
	pattern_check(at, 35, 0, SIZE / 2, "the heap");
	zeros(at + SIZE / 2, SIZE + SIZE / 2, "the new part of the heap");
	SAME(gone(mr, at, 35), IBV_WC_SUCCESS);
	DO(ibv_dereg_mr(mr));
	MUST(brk(at) == 0);
	MUST(brk(from) == 0);
}

void mappings(void) {
	cell("MADV_DONTNEED");
	dont_need(madvise);
	dont_need(by_system_call);
	cell("other advice");
	advice();
	cell("munmap");
	unmap();
	unmap_partly();
	queue_there();
	cell("mremap");
	enlarge(remap);
	enlarge(remap_by_system_call);
	enlarge_around();
	cell("realloc");
	reallocate();
	cell("mprotect");
	protect();
	cell("brk");
	break_of_heap();
}
