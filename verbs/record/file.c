/* The file of raw records. Each record is one write: so a process that is killed leaves whole records, and
 * memory that cannot be read is an error of the kernel and no signal. */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

bool nr_on;
uint32_t nr_generation = 1;

/* It finds out that the thread has it already: a handler of a signal has interrupted this library. */
static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static int cancel_state; /* of the thread that has the lock, as it was */
static int fd = -1;
static off_t end;

bool nr_lock(void) {
	int state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* a write is a place where a thread may end */
	if (pthread_mutex_lock(&lock)) {
		pthread_setcancelstate(state, NULL);
		return false;
	}
	cancel_state = state;
	return true;
}

void nr_unlock(void) {
	int state = cancel_state;
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(state, NULL);
}

static uint64_t clock_of(clockid_t which) {
	struct timespec t;
	clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void nr_say(const char *format, ...) {
	char text[512];
	va_list args;
	int n;
	va_start(args, format);
	n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (n > (int)sizeof text - 1)
		n = (int)sizeof text - 1;
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
		return; /* nobody can be told */
}

uint64_t nr_now(void) { return clock_of(CLOCK_MONOTONIC); }

/* Whether prepare has taken the lock. A handler of a signal may fork while its thread has it. */
static __thread bool prepared;

static void prepare(void) { prepared = nr_lock(); }

static void parent(void) {
	if (prepared)
		nr_unlock();
}

/* The child shares the file's descriptor with its parent, so it must not write into it. */
static void child(void) {
	if (fd >= 0)
		close(fd);
	fd = -1;
	nr_on = false;
	nr_generation++;
	/* Nobody else is there who could hold it. */
	lock = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	if (prepared)
		pthread_setcancelstate(cancel_state, NULL);
}

__attribute__((__constructor__)) static void start(void) { pthread_atfork(prepare, parent, child); }

/* Processes whose program was replaced (exec) have written a file already, so the name has a number. */
static int create(const char *dir) {
	char path[4096];
	int f;
	for (int i = 0; i < 1000; i++) {
		if (snprintf(path, sizeof path, "%s/%d-%d.raw", dir, (int)getpid(), i) >= (int)sizeof path)
			break;
		f = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (f >= 0 || errno != EEXIST)
			return f;
	}
	return -1;
}

bool nr_open(void) {
	const char *dir = getenv("NICLESS_RECORD");
	struct nr_file h = {.magic = NR_MAGIC};
	static bool said;
	if (nr_on || !dir || !*dir)
		return nr_on;
	fd = create(dir);
	if (fd >= 0) {
		h.pid = (uint32_t)getpid();
		h.uid = (uint32_t)getuid();
		h.monotonic = nr_now();
		h.realtime = clock_of(CLOCK_REALTIME);
		strncpy(h.program, program_invocation_short_name, sizeof h.program - 1);
		end = sizeof h;
		nr_on = pwrite(fd, &h, sizeof h, 0) == (ssize_t)sizeof h;
	}
	if (!nr_on && !said) {
		said = true;
		nr_say("nicless: cannot record into %s: %s\n", dir, strerror(errno));
	}
	return nr_on;
}

bool nr_write(struct nr_head *head, const void *data, size_t n) {
	static const uint8_t zeros[8];
	static bool said;
	size_t size = (sizeof *head + n + 7) & ~(size_t)7;
	struct iovec v[3] = {{head, sizeof *head}, {(void *)(uintptr_t)data, n}, {(void *)(uintptr_t)zeros, 0}};
	ssize_t done;
	if (!nr_on)
		return true;
	v[2].iov_len = size - sizeof *head - n;
	head->size = (uint32_t)size;
	head->pad = (uint8_t)v[2].iov_len;
	do {
		done = pwritev(fd, v, 3, end);
	} while (done < 0 && errno == EINTR);
	if (done == (ssize_t)size) {
		end += done;
		return true;
	}
	/* A part of the record may be there; the next one, or the end of the file, takes its place. */
	if (ftruncate(fd, end) < 0 || errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG) {
		if (!said)
			nr_say("nicless: the record of process %d is cut short: %s\n", (int)getpid(), strerror(errno));
		said = true;
		nr_on = false;
	}
	return false;
}

void nr_lost(uint64_t id, enum nr_loss what) {
	struct nr_head h = {.kind = NR_LOST, .time = nr_now(), .id = id, .value = what};
	nr_write(&h, NULL, 0);
}

/* Completions that the program has not polled belong to the record too. */
__attribute__((__destructor__)) static void finish(void) {
	struct nr_head h = {.kind = NR_END};
	if (!nr_lock()) { /* exit in a handler of a signal: the last record is not whole */
		nr_say("nicless: process %d has ended in a signal handler: its record has no end\n", (int)getpid());
		return;
	}
	if (nr_on) {
		nr_each(NR_CQ, nr_copy_completions);
		h.time = nr_now();
		nr_write(&h, NULL, 0);
		nr_on = false;
	}
	nr_unlock();
}
