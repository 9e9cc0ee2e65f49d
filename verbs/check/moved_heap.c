/* Registered memory beside other blocks of malloc. */
#include "moved.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, SMALL = 40, FORKS = 150 };

static volatile bool stop;
static int ready;

static void use_malloc(unsigned *seed) {
	enum { BLOCKS = 64 };
	char *blocks[BLOCKS];
	FILE *file;
	int i;
	for (i = 0; i < BLOCKS; i++) {
		size_t size = 24 + (*seed = *seed * 1103515245u + 12345u) / 65536 % 3000;
		MUST((blocks[i] = malloc(size)));
		memset(blocks[i], i, size);
		if (i % 3 == 0) {
			free(blocks[i]);
			MUST((blocks[i] = malloc(2 * size)));
		}
	}
	MUST((file = fopen("/dev/null", "w")));
	MUST(fputs("text", file) >= 0);
	fclose(file);
	for (i = 0; i < BLOCKS; i++)
		free(blocks[(i * 7 + 3) % BLOCKS]);
}

/* Registers small blocks of this thread's part of the heap, then uses malloc all the time. */
static void *allocates(void *arg) {
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct ibv_mr *some[SMALL];
	uint8_t *blocks[SMALL];
	size_t i;
	for (i = 0; i < SMALL; i++) {
		MUST((blocks[i] = malloc(40 + i * 97)));
		some[i] = reg(blocks[i], 40 + i * 97);
		MUST(!is_moved(blocks[i]));
		free(malloc(300 + i));
	}
	__atomic_fetch_add(&ready, 1, __ATOMIC_RELEASE);
	while (!stop)
		use_malloc(&seed);
	for (i = 0; i < SMALL; i++) {
		DO(ibv_dereg_mr(some[i]));
		free(blocks[i]);
	}
	return NULL;
}

/* Children of a program with threads may use malloc and stdio (glibc makes it so), also if blocks
 * of the heap are registered, or were. */
void heaps(void) {
	pthread_t threads[THREADS];
	unsigned seed = 7;
	int i;
	cell("fork beside malloc");
	stop = false;
	ready = 0;
	for (i = 0; i < THREADS; i++)
		MUST(pthread_create(&threads[i], NULL, allocates, (void *)(uintptr_t)(i + 1)) == 0);
	while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < THREADS)
		usleep(100);
	for (i = 0; i < FORKS; i++) {
		struct ibv_mr *mr;
		void *pages;
		pid_t pid;
		MUST(posix_memalign(&pages, PAGE, 2 * PAGE) == 0);
		pattern_fill(pages, 40, 0, 2 * PAGE);
		mr = reg(pages, 2 * PAGE);
		SAME(is_moved(pages), fast);
		sees(mr, pages, 40, 0, 2 * PAGE);
		pattern_fill(dev.bytes, 41, 0, PAGE);
		SAME(device_write(&dev, mr, pages, PAGE), IBV_WC_SUCCESS);
		if (i % 2 == 0) {
			DO(ibv_dereg_mr(mr));
			MUST(!is_moved(pages));
			pattern_check(pages, 41, 0, PAGE, "after deregistration");
			free(pages);
		}
		pid = fork();
		MUST(pid >= 0);
		if (pid == 0) {
			int k;
			alarm(30); /* ends a child that waits for a lock of malloc */
			for (k = 0; k < 5; k++)
				use_malloc(&seed);
			_exit(0);
		}
		use_malloc(&seed);
		join(pid);
		if (i % 2) {
			DO(ibv_dereg_mr(mr));
			free(pages);
		}
	}
	stop = true;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
