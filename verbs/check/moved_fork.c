/* Registered memory and new processes. */
#include "moved.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 64 * PAGE };

static uint8_t *at;
static struct ibv_mr *mr;

/* A child sees its parent's memory as it was at the fork. Its own stores are not seen by the parent. */
static void child(int from_parent) {
	char byte;
	snprintf(doing, sizeof doing, "child");
	pattern_check(at, 10, 0, SIZE, "the child's memory");
	MUST(read(from_parent, &byte, 1) == 1); /* by now the parent and the device have stored something else */
	pattern_check(at, 10, 0, SIZE, "the child's memory, later");
	pattern_fill(at, 12, 0, SIZE);
	_exit(0);
}

/* Forks by a function, which returns as fork does. */
static void by(pid_t (*make)(void)) {
	int pipes[2];
	pid_t pid;
	pattern_fill(at, 10, 0, SIZE);
	MUST(pipe(pipes) == 0);
	pid = make();
	MUST(pid >= 0);
	if (pid == 0)
		child(pipes[0]);
	pattern_fill(at, 11, 0, SIZE / 2);
	pattern_fill(dev.bytes, 11, SIZE / 2, SIZE / 2);
	SAME(device_write(&dev, mr, at + SIZE / 2, SIZE / 2), IBV_WC_SUCCESS);
	MUST(write(pipes[1], "", 1) == 1);
	join(pid);
	close(pipes[0]);
	close(pipes[1]);
	pattern_check(at, 11, 0, SIZE, "the parent's memory");
	sees(mr, at, 11, 0, SIZE);
}

static pid_t by_system_call(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); }

/* The kernel's own call, past every library. The child's copy is made when the child first calls
 * the library of nicless. */
static pid_t bare(void) {
	long result;
#if defined(__x86_64__)
	register long fourth __asm__("r10") = 0;
	register long fifth __asm__("r8") = 0;
	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "a"((long)SYS_clone), "D"((long)SIGCHLD), "S"(0L), "d"(0L), "r"(fourth), "r"(fifth)
	                 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_clone;
	register long first __asm__("x0") = SIGCHLD;
	register long second __asm__("x1") = 0, third __asm__("x2") = 0, fourth __asm__("x3") = 0,
		fifth __asm__("x4") = 0;
	__asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third), "r"(fourth),
	                 "r"(fifth) : "memory");
	result = first;
#endif
	return (pid_t)result;
}

static void by_bare_clone(void) {
	int to_child[2], to_parent[2];
	char byte;
	pid_t pid;
	pattern_fill(at, 10, 0, SIZE);
	MUST(pipe(to_child) == 0 && pipe(to_parent) == 0);
	pid = bare();
	MUST(pid >= 0);
	if (pid == 0) {
		MUST(open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC) >= 0);
		MUST(write(to_parent[1], "", 1) == 1);
		child(to_child[0]);
	}
	MUST(read(to_parent[0], &byte, 1) == 1);
	pattern_fill(at, 11, 0, SIZE);
	MUST(write(to_child[1], "", 1) == 1);
	join(pid);
	pattern_check(at, 11, 0, SIZE, "the parent's memory");
	sees(mr, at, 11, 0, SIZE);
	close(to_child[0]);
	close(to_child[1]);
	close(to_parent[0]);
	close(to_parent[1]);
}

static int in_clone(void *arg) {
	child(*(int *)arg);
	return 0;
}

static void by_clone(void) {
	uint8_t *stack = take(16 * PAGE);
	int pipes[2];
	pid_t pid;
	pattern_fill(at, 10, 0, SIZE);
	MUST(pipe(pipes) == 0);
	pid = clone(in_clone, stack + 16 * PAGE, SIGCHLD, &pipes[0]);
	MUST(pid > 0);
	pattern_fill(at, 11, 0, SIZE);
	MUST(write(pipes[1], "", 1) == 1);
	join(pid);
	pattern_check(at, 11, 0, SIZE, "the parent's memory");
	close(pipes[0]);
	close(pipes[1]);
	munmap(stack, 16 * PAGE);
}

/* While another thread goes on storing, a child sees nothing that was stored after the fork has
 * returned, and nothing changes in it. */
static volatile uint64_t *counter, phase;
static volatile bool stop;

static void *hammer(void *arg) {
	(void)arg;
	while (!stop) {
		uint64_t now = phase, i;
		for (i = 0; i < SIZE / 8; i += 61)
			counter[i] = now;
	}
	return NULL;
}

static void beside_threads(void) {
	pthread_t threads[2];
	uint64_t round, i, seen[SIZE / 8 / 61 + 1];
	pid_t pid;
	counter = (volatile uint64_t *)at;
	memset(at, 0, SIZE);
	phase = 1;
	stop = false;
	for (i = 0; i < 2; i++)
		MUST(pthread_create(&threads[i], NULL, hammer, NULL) == 0);
	for (round = 1; round < 30; round++) {
		phase = 2 * round;
		pid = fork();
		MUST(pid >= 0);
		if (pid == 0) {
			for (i = 0; i < SIZE / 8; i += 61) {
				seen[i / 61] = counter[i];
				if (seen[i / 61] > 2 * round)
					_exit(2); /* stored after the fork */
			}
			for (i = 0; i < 100; i++)
				sched_yield();
			for (i = 0; i < SIZE / 8; i += 61)
				if (seen[i / 61] != counter[i])
					_exit(3); /* the parent's store is seen */
			for (i = 0; i < SIZE / 8; i += 61)
				counter[i] = 1u << 30;
			_exit(0);
		}
		phase = 2 * round + 1;
		join(pid);
		for (i = 0; i < SIZE / 8; i += 61)
			MUST(counter[i] <= 2 * round + 1); /* what the child stored is not seen */
	}
	stop = true;
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* Small buffers share their pages with other blocks of malloc and with malloc's own data. Parent
 * and child use malloc after a fork without disturbing each other. */
static void heap(void) {
	enum { BLOCKS = 200 };
	uint8_t *blocks[BLOCKS];
	struct ibv_mr *some[BLOCKS / 10];
	size_t i, round;
	pid_t pid;
	for (i = 0; i < BLOCKS; i++) {
		MUST((blocks[i] = malloc(40 + i * 7)));
		memset(blocks[i], (int)i, 40 + i * 7);
		if (i % 10 == 0)
			some[i / 10] = reg(blocks[i], 40 + i * 7);
	}
	pid = fork();
	MUST(pid >= 0);
	for (round = 0; round < 3; round++) /* in both */
		for (i = 0; i < BLOCKS; i++) {
			size_t size = pid == 0 ? 30 + i : 500 + i * 11, k;
			if (i % 10 == 0)
				continue;
			for (k = 0; k < 40 + (round == 0 ? i * 7 : 0) && round == 0; k++)
				if (blocks[i][k] != (uint8_t)i)
					FAIL("block %zu has %d", i, blocks[i][k]);
			free(blocks[i]);
			MUST((blocks[i] = malloc(size)));
			memset(blocks[i], (int)i, size);
		}
	if (pid == 0)
		_exit(0);
	join(pid);
	for (i = 0; i < BLOCKS; i++) {
		if (i % 10 == 0)
			DO(ibv_dereg_mr(some[i / 10]));
		free(blocks[i]);
	}
}

/* The first block that a thread gets is in the page that has malloc's data about the thread's
 * memory. In the child the C library changes this data before any handler runs. */
static void *allocate(void *arg) {
	sem_t *turns = arg;
	uint8_t *block = malloc(64);
	struct ibv_mr *region;
	MUST(block);
	region = reg(block, 64);
	MUST(sem_post(&turns[0]) == 0 && sem_wait(&turns[1]) == 0);
	pattern_fill(block, 14, 0, 64);
	sees(region, block, 14, 0, 64);
	DO(ibv_dereg_mr(region));
	free(block);
	return NULL; /* if malloc's data is wrong, the C library aborts now */
}

static void heap_of_thread(void) {
	pthread_t thread;
	sem_t turns[2];
	pid_t pid;
	MUST(sem_init(&turns[0], 0, 0) == 0 && sem_init(&turns[1], 0, 0) == 0);
	MUST(pthread_create(&thread, NULL, allocate, turns) == 0);
	MUST(sem_wait(&turns[0]) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		_exit(0);
	join(pid);
	MUST(sem_post(&turns[1]) == 0);
	pthread_join(thread, NULL);
}

/* New programs: their processes share the memory of the parent until they execute. */
static void programs(void) {
	char *const argv[] = {"true", NULL}, *const env[] = {NULL};
	FILE *out;
	char line[16];
	pid_t pid;
	pattern_fill(at, 13, 0, SIZE);
	SAME(system("exit 3"), 3 << 8);
	MUST((out = popen("echo word", "r")));
	MUST(fgets(line, sizeof line, out) && strcmp(line, "word\n") == 0);
	SAME(pclose(out), 0);
	MUST(posix_spawnp(&pid, "true", NULL, NULL, argv, env) == 0);
	join(pid);
	pid = vfork();
	MUST(pid >= 0);
	if (pid == 0) {
		at[0]++; /* the parent's memory */
		_exit(0);
	}
	join(pid);
	SAME(at[0], (uint8_t)(pattern_byte(13, 0) + 1));
	at[0]--;
	sees(mr, at, 13, 0, SIZE);
	MUST(is_moved(at) == fast);
}

/* Memory that was kept from children stays away from them. */
static void kept(void) {
	uint8_t *own = take(4 * PAGE);
	struct ibv_mr *m;
	pid_t pid;
	memset(own, 1, 4 * PAGE);
	m = reg(own, 4 * PAGE);
	MUST(madvise(own, 4 * PAGE, MADV_DONTFORK) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		unsigned char there[4];
		_exit(mincore(own, 4 * PAGE, there) == 0); /* 0: nothing is mapped there */
	}
	join(pid);
	SAME(own[0], 1);
	MUST(madvise(own, 4 * PAGE, MADV_DOFORK) == 0);
	DO(ibv_dereg_mr(m));
	munmap(own, 4 * PAGE);
}

/* A child may register its copy with a device of its own, and fork in turn. */
static void generations(void) {
	pid_t pid;
	pattern_fill(at, 14, 0, SIZE);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		struct device mine;
		struct ibv_mr *m;
		snprintf(doing, sizeof doing, "child with a device");
		device_open(&mine, SIZE);
		MUST((m = ibv_reg_mr(mine.pd, at, SIZE, ALL)));
		SAME(device_read(&mine, m, at, SIZE), IBV_WC_SUCCESS);
		pattern_check(mine.bytes, 14, 0, SIZE, "what the child's device sees");
		pid = fork();
		MUST(pid >= 0);
		if (pid == 0) {
			pattern_check(at, 14, 0, SIZE, "the grandchild's memory");
			pattern_fill(at, 15, 0, SIZE);
			_exit(0);
		}
		join(pid);
		SAME(device_read(&mine, m, at, SIZE), IBV_WC_SUCCESS);
		pattern_check(mine.bytes, 14, 0, SIZE, "what the child's device sees later");
		DO(ibv_dereg_mr(m));
		device_close(&mine);
		_exit(0);
	}
	join(pid);
	pattern_check(at, 14, 0, SIZE, "the parent's memory");
}

void forks(void) {
	at = take(SIZE);
	pattern_fill(at, 10, 0, SIZE);
	mr = reg(at, SIZE);
	MUST(is_moved(at) == fast);
	cell("fork");
	by(fork);
	cell("fork beside threads");
	beside_threads();
	cell("fork and malloc");
	heap();
	heap_of_thread();
	cell("fork again");
	generations();
	cell("clone");
	by(_Fork);
	by(by_system_call);
	by_clone();
	cell("bare clone");
	by_bare_clone();
	cell("new programs");
	programs();
	cell("MADV_DONTFORK");
	kept();
	DO(ibv_dereg_mr(mr));
	cell("fork after deregistration");
	pattern_fill(at, 16, 0, SIZE);
	if (fork() == 0) {
		pattern_fill(at, 17, 0, SIZE);
		_exit(0);
	}
	wait(NULL);
	pattern_check(at, 16, 0, SIZE, "the parent's memory");
	munmap(at, SIZE);
}
