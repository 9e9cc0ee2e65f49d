/* A child can use the device that its parent opened, over a connection of its own, and can open the
 * device again. */
#include "try.h"

#include <sys/syscall.h>

static int fd;

static void child_sees(void) {
	struct stat st;
	uint64_t *ring;
	int own;
	int64_t calls = reverse(fd, 1);
	TRY(calls > 0);
	TRY(fstat(fd, &st) == 0 && is_device(&st));
	ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0x10000);
	TRY(ring != MAP_FAILED && ring[0] == 0x10000);
	own = open(DEVICE, O_RDWR | O_CLOEXEC);
	TRY(own >= 0 && reverse(own, 2) == 1);
	TRY(reverse(fd, 3) > calls); /* calls of the same device, by any process */
	close(own);
}

static void forked(void) {
	pid_t child = fork();
	TRY(child >= 0);
	if (child == 0) {
		child_sees();
		_exit(0);
	}
	join(child);
}

/* A bare clone runs no handler of pthread_atfork. */
static void cloned(void) {
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	TRY(child >= 0);
	if (child == 0) {
		child_sees();
		_exit(0);
	}
	join(child);
	TRY(reverse(fd, 3) == 6);
}

/* A child of vfork shares its parent's memory and must not use the connection. */
static void vforked(void) {
	volatile int result = 0, error = 0, opened = 0;
	pid_t child = vfork();
	TRY(child >= 0);
	if (child == 0) {
		result = (int)reverse(fd, 1);
		error = errno;
		opened = open(DEVICE, O_RDWR);
		_exit(0);
	}
	join(child);
	TRY(result == -1 && error == EIO && opened == -1);
	TRY(reverse(fd, 3) == 7);
}

static volatile int stop;

static void *hammer(void *arg) {
	while (!stop)
		TRY(reverse(fd, (unsigned)(uintptr_t)arg) > 0);
	return NULL;
}

/* A child can take every lock that other threads of the parent hold at the fork. */
static void under_load(void) {
	pthread_t threads[3];
	uintptr_t i;
	for (i = 0; i < 3; i++)
		TRY(pthread_create(&threads[i], NULL, hammer, (void *)i) == 0);
	for (i = 0; i < 40; i++)
		forked();
	stop = 1;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

int main(void) {
	fd = open(DEVICE, O_RDWR);
	TRY(fd >= 0);
	forked();
	TRY(reverse(fd, 3) == 3);
	cloned();
	vforked();
	under_load();
	return 0;
}
