/* Pages are remapped into shared memory while other threads store to them. */
#include "try.h"

#include "forbid.h"

enum { ROUNDS = 40, PAGES = 64, HAMMERS = 2, WORDS = 512 };

static int fd;
static uint64_t *volatile arena; /* the pages of this round */
static volatile int stop;
static volatile uint64_t rounds[HAMMERS];

static int64_t remap(const void *at, size_t length) {
	struct request r;
	begin(&r, REMAP);
	attr(&r, 8, address(at));
	attr(&r, 8, length);
	attr(&r, 8, 0);
	return call(fd, &r) == 0 ? (int64_t)r.attrs[2].data : -errno;
}

/* Each thread has a word of its own in each page. The value that a thread stored last must
 * still be there the next time. */
static void *hammer(void *arg) {
	uintptr_t me = (uintptr_t)arg;
	uint64_t *pages = NULL, last = 0;
	while (!stop) {
		uint64_t *now = arena;
		int i;
		if (now != pages) {
			pages = now;
			last = 0;
		}
		for (i = 0; i < PAGES; i++) {
			volatile uint64_t *word = &pages[i * WORDS + (int)me];
			if (*word != last) {
				fprintf(stderr, "page %d: %llu stored, %llu found\n", i, (unsigned long long)last,
				        (unsigned long long)*word);
				_exit(1);
			}
			*word = last + 1;
		}
		last++;
		rounds[me]++;
	}
	return NULL;
}

/* Waits until every hammer has started two more rounds, so that all use the current pages. */
static void settle(void) {
	uint64_t from[HAMMERS];
	int i;
	for (i = 0; i < HAMMERS; i++)
		from[i] = rounds[i];
	for (i = 0; i < HAMMERS; i++)
		while (rounds[i] < from[i] + 2)
			sched_yield();
}

static void nothing_is_lost(void) {
	size_t bytes = PAGES * WORDS * 8;
	uint64_t *all[ROUNDS];
	pthread_t threads[HAMMERS];
	uintptr_t i;
	int round;
	for (round = 0; round < ROUNDS; round++) {
		all[round] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		TRY(all[round] != MAP_FAILED);
		all[round][WORDS * (PAGES - 1) + 100] = (uint64_t)round + 1000;
	}
	arena = all[0];
	for (i = 0; i < HAMMERS; i++)
		TRY(pthread_create(&threads[i], NULL, hammer, (void *)i) == 0);
	for (round = 0; round < ROUNDS; round++) {
		arena = all[round];
		settle();
		TRY(remap(all[round], bytes) == 0);
		FAILS(EPERM, madvise(all[round], bytes, MADV_REMOVE)); /* sealed */
		settle();
		TRY(peek(fd, (WORDS * (PAGES - 1) + 100) * 8) == (uint64_t)round + 1000); /* the value was copied */
		all[round][7] = (uint64_t)round;
		TRY(peek(fd, 7 * 8) == (uint64_t)round); /* and the page is shared */
	}
	stop = 1;
	for (i = 0; i < HAMMERS; i++)
		pthread_join(threads[i], NULL);
}

/* Memory that cannot be remapped stays as it is. */
static void refused(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t local = 5, *pages = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	                                  0);
	TRY(pages != MAP_FAILED);
	TRY(remap((void *)(address(&local) & ~(uint64_t)(page - 1)), page) == EBUSY); /* this thread's stack */
	TRY(remap((void *)(address(&errno) & ~(uint64_t)(page - 1)), page) == EBUSY);
	TRY(local == 5);
	TRY(remap((char *)pages + 8, page) == EINVAL);
	TRY(remap(pages, page + 8) == EINVAL);
	TRY(remap(pages, 0) == EINVAL);
	pages[0] = 6;
	TRY(mprotect(pages, page, PROT_READ) == 0);
	TRY(remap(pages, page) != 0); /* read-only */
	TRY(pages[0] == 6);
	pages[2 * page / 8] = 7;
	TRY(munmap((char *)pages + 3 * page, page) == 0);
	TRY(remap((char *)pages + 2 * page, 2 * page) != 0); /* half of the range is not mapped */
	pages[2 * page / 8] += 1;
	TRY(pages[2 * page / 8] == 8); /* and the other half does not stay protected */
}

static void *idle(void *arg) {
	while (!stop)
		sched_yield();
	return arg;
}

/* Without userfaultfd a process with several threads has only single pages remapped, such as
 * those of doorbell records. */
static void one_page(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	pthread_t other;
	uint64_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *shared = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	TRY(pages != MAP_FAILED && shared != MAP_FAILED);
	pages[1] = shared[1] = 9;
	TRY(pthread_create(&other, NULL, idle, NULL) == 0);
	TRY(remap(pages, 2 * page) == EOPNOTSUPP);
	TRY(remap(shared, page) == EOPNOTSUPP); /* the page is a shared one */
	TRY(remap(pages, page) == 0 && pages[1] == 9 && peek(fd, 8) == 9);
	pages[1] = 10;
	TRY(peek(fd, 8) == 10);
	stop = 1;
	pthread_join(other, NULL);
	TRY(munmap(pages, 2 * page) == 0);
	pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TRY(pages != MAP_FAILED);
	pages[1] = 11;
	/* The only thread needs no userfaultfd. */
	TRY(remap(pages, 2 * page) == 0 && pages[1] == 11 && peek(fd, 8) == 11);
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "one-page") == 0)
		forbid(SYS_userfaultfd, SYS_userfaultfd);
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	TRY(fd >= 0);
	if (strcmp(what, "nothing-lost") == 0)
		nothing_is_lost();
	else if (strcmp(what, "refused") == 0)
		refused();
	else if (strcmp(what, "one-page") == 0)
		one_page();
	else
		TRY(!"a scenario");
	return 0;
}
