/* The file of raw records. Each record is one write: so a process that is killed leaves whole records, and
 * memory that cannot be read is an error of the kernel (EFAULT) and no signal. */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
static pid_t process;    /* that has opened the file */
static struct stat own;  /* of the file */
static char path[4096];

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

static bool is_own(int f);

/* Whether prepare has taken the lock. A handler of a signal may fork while its thread has it. */
static __thread bool prepared;

static void prepare(void) { prepared = nr_lock(); }

static void parent(void) {
	if (prepared)
		nr_unlock();
}

/* The child shares the file's descriptor with its parent, so it must not write into it. */
static void child(void) {
	if (is_own(fd))
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

/* Returns another descriptor of the same file. Those up to 1023 belong to programs: some count on the lowest
 * ones, and select knows no others. */
static int move(int f) {
	int high = f < 0 ? -1 : fcntl(f, F_DUPFD_CLOEXEC, 1024);
	if (high < 0)
		return f; /* RLIMIT_NOFILE is lower */
	close(f);
	return high;
}

/* Processes whose program was replaced (exec) have written a file already, so the name has a number. */
static int create(const char *dir) {
	int f;
	for (int i = 0; i < 1000; i++) {
		if (snprintf(path, sizeof path, "%s/%d-%d.raw", dir, (int)getpid(), i) >= (int)sizeof path)
			break;
		f = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (f >= 0 || errno != EEXIST)
			return move(f);
	}
	return -1;
}

static bool is_own(int f) {
	struct stat st;
	return f >= 0 && !fstat(f, &st) && st.st_dev == own.st_dev && st.st_ino == own.st_ino;
}

/* Returns whether the descriptor is that of the file still: programs may close all that they do not know, and
 * get the same number for a file of theirs. The file is opened once more then. */
static bool ready(void) {
	int f;
	if (is_own(fd))
		return true;
	f = move(open(path, O_WRONLY | O_CLOEXEC));
	if (!is_own(f)) {
		if (f >= 0)
			close(f);
		return false;
	}
	fd = f;
	return true;
}

/* Writes at an offset. If the program has a limit of the size of its files (RLIMIT_FSIZE), a write beyond it
 * sends a signal, which would end the program: it is taken back. */
static ssize_t put(const struct iovec *v, off_t at) {
	static const struct timespec none;
	struct rlimit limit;
	sigset_t signal, old, waiting;
	bool limited = !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY, before;
	ssize_t n;
	int error;
	if (!limited)
		return pwritev(fd, v, 3, at);
	sigemptyset(&signal);
	sigaddset(&signal, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &signal, &old);
	before = !sigpending(&waiting) && sigismember(&waiting, SIGXFSZ);
	n = pwritev(fd, v, 3, at);
	error = errno;
	if (n < 0 && error == EFBIG && !before)
		sigtimedwait(&signal, NULL, &none);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return n;
}

/* Writes all bytes. Returns false with errno, and then a part of them may be written. */
static bool put_all(struct iovec v[3], off_t at) {
	size_t left = v[0].iov_len + v[1].iov_len + v[2].iov_len;
	while (left) {
		ssize_t n = put(v, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO;
			return false;
		}
		at += n;
		left -= (size_t)n;
		for (int i = 0; i < 3; i++) {
			size_t k = (size_t)n < v[i].iov_len ? (size_t)n : v[i].iov_len;
			v[i].iov_base = (uint8_t *)v[i].iov_base + k;
			v[i].iov_len -= k;
			n -= (ssize_t)k;
		}
	}
	return true;
}

bool nr_open(void) {
	const char *dir = getenv("NICLESS_RECORD");
	struct nr_file h = {.magic = NR_MAGIC};
	static bool said;
	if (nr_on || !dir || !*dir)
		return nr_on;
	fd = create(dir);
	process = getpid();
	if (fd >= 0 && !fstat(fd, &own)) {
		struct iovec v[3] = {{&h, sizeof h}, {NULL, 0}, {NULL, 0}};
		h.pid = (uint32_t)getpid();
		h.uid = (uint32_t)getuid();
		h.monotonic = nr_now();
		h.realtime = clock_of(CLOCK_REALTIME);
		strncpy(h.program, program_invocation_short_name, sizeof h.program - 1);
		end = sizeof h;
		nr_on = put_all(v, 0);
	}
	if (!nr_on && !said) {
		said = true;
		nr_say("nicless: cannot record into %s: %s\n", dir, strerror(errno));
	}
	return nr_on;
}

bool nr_write(struct nr_head *head, const void *data, size_t n) {
	static const uint8_t zeros[8];
	size_t size = (sizeof *head + n + 7) & ~(size_t)7;
	struct iovec v[3] = {{head, sizeof *head}, {(void *)(uintptr_t)data, n}, {(void *)(uintptr_t)zeros, 0}};
	int error;
	if (!nr_on || getpid() != process) /* a child of clone, which no handler of fork has seen */
		return true;
	v[2].iov_len = size - sizeof *head - n;
	head->size = (uint32_t)size;
	head->pad = (uint8_t)v[2].iov_len;
	if (!ready())
		error = EBADF;
	else if (put_all(v, end)) {
		end += (off_t)size;
		return true;
	} else {
		error = errno;
		/* A part of the record may be there; the next one, or the end of the file, takes its place. */
		if (!ftruncate(fd, end) && error == EFAULT)
			return false;
	}
	/* The rest would have holes. */
	nr_say("nicless: the record of process %d is cut short: %s\n", (int)process, strerror(error));
	nr_on = false;
	return true;
}

void nr_lost(uint64_t id, enum nr_loss what) {
	struct nr_head h = {.kind = NR_LOST, .time = nr_now(), .id = id, .value = what};
	nr_write(&h, NULL, 0);
}

void nr_lost_own(struct nr_object *o) {
	if (o->own && nr_records(o))
		nr_lost(o->id, NR_LOST_OWN);
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
		nr_each(NR_CQ, nr_lost_own);
		nr_each(NR_QP, nr_lost_own);
		h.time = nr_now();
		nr_write(&h, NULL, 0);
		nr_on = false;
	}
	nr_unlock();
}
