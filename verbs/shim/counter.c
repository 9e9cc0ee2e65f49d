/* Files of counters: a program that opens one gets its text as it is now. The files in the tree are for
 * programs that this library is not in; the server renews them only now and then. So the descriptor that
 * was opened is replaced by one of memory with the server's answer, under the same number. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

/* In the path of each counter, and in that of few other files. */
static const char part[] = "counters/";

enum { MAX_TEXT = 64 };

/* Stores in `path` the file that a descriptor is of, below the server's directory, as the server knows it.
 * Returns its length, or 0 if it is no counter or was opened for something else than reading. */
static size_t counter_of(int fd, char *path) {
	char link[64];
	const char *rest;
	size_t n;
	ssize_t length;
	long flags = NV_SYSCALL(SYS_fcntl, fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH))
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = NV_SYSCALL(SYS_readlinkat, AT_FDCWD, link, path, NV_PATH - 1);
	if (length <= 0)
		return 0;
	path[length] = '\0';
	rest = nv_within(path);
	if (!rest || !strstr(rest, part))
		return 0;
	n = strlen(rest);
	memmove(path, rest, n + 1);
	return n;
}

/* Stores the text of a file in `text`, and returns its length, or 0 without an answer. */
static size_t ask(const char *path, size_t length, char *text) {
	struct nv_entry entry;
	struct nv_process *p = nv_enter(&entry);
	size_t n = 0;
	void *to;
	if (!p)
		return 0;
	if (nv_connect(p) == 0) {
		nv_begin(p, NV_COUNTER, 0);
		to = nv_room(p, length);
		if (to)
			memcpy(to, path, length);
		if (to && nv_ask(p) == 0) {
			n = p->in_length - sizeof(struct nv_header);
			n = n <= MAX_TEXT ? n : 0;
			memcpy(text, p->in + sizeof(struct nv_header), n);
		}
	}
	nv_leave(p, &entry, 0);
	return n;
}

/* Makes fd a descriptor of memory with the text. If that fails, fd stays as it is. */
static void replace(int fd, const char *text, size_t n) {
	const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	long flags = NV_SYSCALL(SYS_fcntl, fd, F_GETFD);
	int memory = (int)NV_SYSCALL(SYS_memfd_create, "counter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory < 0)
		return;
	if (NV_SYSCALL(SYS_pwrite64, memory, text, n, 0L) == (long)n &&
	    NV_SYSCALL(SYS_fcntl, memory, F_ADD_SEALS, seals) == 0)
		NV_SYSCALL(SYS_dup3, memory, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	NV_SYSCALL(SYS_close, memory);
}

int nv_counter(int fd, const char *path) {
	char file[NV_PATH], text[MAX_TEXT];
	int error = errno;
	size_t n;
	if (fd < 0 || !nv_dir() || (path[0] == '/' && !strstr(path, part)))
		return fd;
	n = counter_of(fd, file);
	if (n)
		n = ask(file, n, text);
	if (n)
		replace(fd, text, n);
	errno = error;
	return fd;
}
