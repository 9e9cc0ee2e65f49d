/* Threads, signals, and a program that closes descriptors that it has not opened. */
#include "try.h"

#include <sys/time.h>

enum { THREADS = 8, CALLS = 300 };

static int fd;
static volatile int interrupted;

static void *hammer(void *arg) {
	unsigned i;
	for (i = 0; i < CALLS; i++)
		TRY(reverse(fd, (unsigned)(uintptr_t)arg * CALLS + i) > 0); /* each has its own answer */
	return NULL;
}

static void hammered(void) {
	pthread_t threads[THREADS];
	uintptr_t i;
	for (i = 0; i < THREADS; i++)
		TRY(pthread_create(&threads[i], NULL, hammer, (void *)i) == 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	TRY(reverse(fd, 1) == THREADS * CALLS + 1);
}

static void handler(int signal) {
	int error = errno;
	(void)signal;
	if (reverse(fd, 12345) > 0)
		interrupted++;
	errno = error;
}

/* A signal handler can make calls too, whatever the program is doing. */
static void signalled(void) {
	struct sigaction action;
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	unsigned i;
	memset(&action, 0, sizeof action);
	action.sa_handler = handler;
	TRY(sigaction(SIGALRM, &action, NULL) == 0);
	TRY(setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (i = 0; i < 2000 || (interrupted < 20 && i < 1000000); i++)
		TRY(reverse(fd, i) > 0);
	TRY(setitimer(ITIMER_REAL, &never, NULL) == 0);
	TRY(interrupted >= 20);
}

/* A thread that is cancelled during a call must not keep the lock. */
static void *ask_for_ever(void *arg) {
	(void)arg;
	for (;;) {
		reverse(fd, 1);
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled(void) {
	int i;
	for (i = 0; i < 50; i++) {
		pthread_t thread;
		TRY(pthread_create(&thread, NULL, ask_for_ever, NULL) == 0);
		TRY(reverse(fd, 2) > 0);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	TRY(reverse(fd, 3) > 0);
}

/* The program reuses the number of every descriptor that it has not opened, and so closes the
 * library's own descriptor. */
static void closed(void) {
	int pair[2], i, flags;
	char byte;
	TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	for (i = 0; i < 8192; i++)
		if (i > 2 && i != fd && i != pair[0] && i != pair[1] && (flags = fcntl(i, F_GETFD)) >= 0)
			TRY((i >= 256 || i > fd) && dup2(pair[0], i) == i);
	FAILS(EIO, reverse(fd, 1));
	FAILS(EIO, reverse(fd, 2));
	/* Nothing was sent to the descriptor that has the number now. */
	TRY(recv(pair[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	close(fd);
	fd = open(DEVICE, O_RDWR);
	TRY(fd >= 0 && reverse(fd, 1) == 1);
}

/* The server closes the connection: the device is lost, and a device that is opened later
 * works. */
static void hung_up(void) {
	struct request r;
	begin(&r, HANG_UP);
	FAILS(EIO, call(fd, &r));
	FAILS(EIO, reverse(fd, 1));
	close(fd);
	fd = open(DEVICE, O_RDWR);
	TRY(fd >= 0 && reverse(fd, 1) == 1);
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	for (fd = 3; fd < 8192; fd++)
		close(fd); /* what the caller of the test left open */
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	TRY(fd >= 0);
	if (strcmp(what, "hammered") == 0)
		hammered();
	else if (strcmp(what, "signalled") == 0)
		signalled();
	else if (strcmp(what, "cancelled") == 0)
		cancelled();
	else if (strcmp(what, "closed") == 0)
		closed();
	else if (strcmp(what, "hung-up") == 0)
		hung_up();
	else
		TRY(!"a scenario");
	return 0;
}
