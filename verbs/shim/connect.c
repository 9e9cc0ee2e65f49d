/* The connection to the server: a hidden socket, made when a device is first opened. A
 * connection that has failed is given up, together with its contexts. The next device that
 * is opened gets a new connection. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "real.h"

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif

/* How many seconds the server may take to answer. Signals are blocked meanwhile. */
enum { PATIENCE = 30 };

/* The hidden descriptor gets a number from HIGH on. If the limit on descriptors is too low for
 * that, it gets one of the last BELOW_LIMIT numbers. Programs rarely choose such numbers
 * themselves, and HIGH is not so high that the kernel needs a large table. */
enum { HIGH = 4096, BELOW_LIMIT = 32 };

/* The last generation. It is in memory that a fork copies, so that no child reuses a generation
 * of its ancestors. */
static uint32_t generations;

uint64_t nv_cookie(int fd) {
	uint64_t cookie = 0;
	socklen_t size = sizeof cookie;
	return NV_REAL(getsockopt)(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

bool nv_identify(int fd, const struct stat *st, struct nv_identity *id) {
	struct stat own;
	if (!st) {
		if (NV_SYSCALL(SYS_fstat, fd, &own) != 0)
			return false;
		st = &own;
	}
	id->ino = st->st_ino;
	id->cookie = st->st_dev;
	if (S_ISFIFO(st->st_mode))
		return true;
	if (!S_ISSOCK(st->st_mode))
		return false;
	/* Inode numbers are reused, cookies are not. */
	id->cookie = nv_cookie(fd);
	return true;
}

static bool is_ours(const struct nv_process *p) {
	struct nv_identity now;
	if (p->self.cookie)
		return nv_cookie(p->fd) == p->self.cookie;
	return nv_identify(p->fd, NULL, &now) && now.ino == p->self.ino && now.cookie == p->self.cookie;
}

void nv_give_up(struct nv_process *p) {
	if (is_ours(p))
		close(p->fd);
	p->generation = 0;
	p->lost = true;
}

bool nv_connected(struct nv_process *p) {
	static int said;
	if (!p->generation)
		return false;
	if (is_ours(p))
		return true;
	nv_say(&said, "the program has closed descriptor %d, which is ours: its devices are lost", p->fd);
	p->generation = 0;
	p->lost = true;
	return false;
}

/* Moves the hidden descriptor to a number that programs are unlikely to use. */
static int hide(int fd) {
	struct rlimit limit;
	int from = HIGH, high;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < HIGH + BELOW_LIMIT)
		from = limit.rlim_cur > 2 * BELOW_LIMIT ? (int)limit.rlim_cur - BELOW_LIMIT : 0;
	high = fcntl(fd, F_DUPFD_CLOEXEC, from);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

static int reach(void) {
	struct sockaddr_un to;
	struct timeval patience = {PATIENCE, 0};
	int fd, size = 2 * NV_MAX_DATAGRAM, error;
	memset(&to, 0, sizeof to);
	to.sun_family = AF_UNIX;
	if ((size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s/server.sock", nv_dir()) >= sizeof to.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = NV_REAL(socket)(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	NV_REAL(setsockopt)(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	NV_REAL(setsockopt)(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	NV_REAL(setsockopt)(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	while (NV_PLAIN(connect)(fd, (struct sockaddr *)&to, sizeof to) != 0)
		if (errno != EINTR) {
			error = errno;
			close(fd);
			errno = error;
			return -1;
		}
	return hide(fd);
}

/* The engine reads and writes the program's memory. Where Yama restricts such access, this
 * process has to name the process that may have it. */
static void admit(int fd) {
	struct ucred peer;
	socklen_t size = sizeof peer;
	if (NV_REAL(getsockopt)(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0)
		prctl(PR_SET_PTRACER, (unsigned long)peer.pid, 0, 0, 0);
}

static int hello(struct nv_process *p) {
	enum { NAME = 64 }; /* at most so many bytes of the program's name go to the log */
	static int other;
	size_t length = strnlen(program_invocation_short_name, NAME);
	const struct nv_welcome *w = (const struct nv_welcome *)(p->in + sizeof(struct nv_header));
	const uint64_t *guard = nv_guard(p);
	struct nv_hello *h;
	int error;
	nv_begin(p, NV_HELLO, 0);
	h = nv_room(p, sizeof *h);
	h->magic = NV_MAGIC;
	h->major = NV_MAJOR;
	h->minor = NV_MINOR;
	h->wants = nv_wants() | (nv_has_uffd() ? NV_HAS_UFFD : 0);
	h->guard = (uint64_t)(uintptr_t)guard;
	h->cookie = guard ? *guard : 0;
	memcpy(nv_room(p, length), program_invocation_short_name, length);
	error = nv_ask(p);
	if (error == EIO)
		return EIO;
	if (error || p->in_length < sizeof(struct nv_header) + sizeof *w || w->major != NV_MAJOR) {
		nv_say(&other, "the verbs server in %s does not speak version %d of this library: %s", nv_dir(),
		       NV_MAJOR, strerror(error ? error : EPROTO));
		nv_close_fds(p);
		nv_give_up(p);
		return EPROTO;
	}
	p->minor = w->minor;
	p->reported = 0;
	nv_report_looks(p);
	return 0;
}

int nv_connect(struct nv_process *p) {
	static int absent;
	if (nv_connected(p))
		return 0;
	p->fd = reach();
	if (p->fd < 0) {
		nv_say(&absent, "no verbs server at %s/server.sock: %s", nv_dir(), strerror(errno));
		return ENODEV;
	}
	if (!nv_identify(p->fd, NULL, &p->self)) {
		close(p->fd);
		return EIO;
	}
	p->generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
	admit(p->fd);
	return hello(p);
}
