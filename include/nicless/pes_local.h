/*
 * An exchange for PEs of one host that one program has started: each has a stream socket to
 * that program, which passes on what all have sent. Host code only.
 *
 *   the program:  socketpair(AF_UNIX, SOCK_STREAM, 0, pair), once for each PE, which gets pair[1]
 *                 nicless_pes_local_serve(fds, n), once all have been started
 *   each PE:      struct nicless_pes_local local = {fd, n};
 *                 f.exchange = nicless_pes_local_exchange, f.arg = &local
 */
#ifndef NICLESS_PES_LOCAL_H
#define NICLESS_PES_LOCAL_H

#include "pes.h"

/* Bytes of one PE in an exchange. nicless/pes.h sends 48, and 4 for each of at most NICLESS_PE_MOST PEs. */
enum { NICLESS_PES_LOCAL_MOST = 1 << 20 };

/* The argument of nicless_pes_local_exchange. */
struct nicless_pes_local {
	int fd; /* to the program that has started this PE */
	int n_pes;
};

/* Sends or receives all bytes. Returns 0, or -EPIPE if the other end is gone. */
static inline int nicless_pes_local_bytes(int fd, void *at, size_t bytes, int out) {
	char *b = (char *)at;
	while (bytes) {
		ssize_t k = out ? send(fd, b, bytes, MSG_NOSIGNAL) : recv(fd, b, bytes, MSG_WAITALL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return -EPIPE;
		b += k;
		bytes -= (size_t)k;
	}
	return 0;
}

/* The exchange of nicless_pes_config. Returns -EPIPE if the program or another PE has ended. */
static inline int nicless_pes_local_exchange(void *arg, const void *mine, size_t bytes, void *all) {
	const struct nicless_pes_local *l = (const struct nicless_pes_local *)arg;
	uint64_t length = bytes;
	int error = nicless_pes_local_bytes(l->fd, &length, sizeof length, 1);
	if (error == 0)
		error = nicless_pes_local_bytes(l->fd, (void *)(uintptr_t)mine, bytes, 1);
	if (error == 0)
		error = nicless_pes_local_bytes(l->fd, all, bytes * (size_t)l->n_pes, 0);
	return error;
}

/* Serves one exchange. `*all` has memory for it, which may grow. */
static inline int nicless_pes_local_turn(const int *fd, int n, char **all) {
	uint64_t length, first = 0;
	int i, error;
	for (i = 0; i < n; i++) {
		error = nicless_pes_local_bytes(fd[i], &length, sizeof length, 0);
		if (error)
			return error;
		if (length > NICLESS_PES_LOCAL_MOST || (i > 0 && length != first))
			return -EPROTO;
		if (i == 0) {
			char *more = (char *)realloc(*all, (size_t)length * (size_t)n + 1);
			if (!more)
				return -ENOMEM;
			*all = more;
			first = length;
		}
		error = nicless_pes_local_bytes(fd[i], *all + length * (uint64_t)i, length, 0);
		if (error)
			return error;
	}
	for (i = 0; i < n; i++) {
		error = nicless_pes_local_bytes(fd[i], *all, (size_t)first * (size_t)n, 1);
		if (error)
			return error;
	}
	return 0;
}

/*
 * Serves exchanges of n PEs until one has ended or has closed its socket, and closes the sockets
 * fd[0] to fd[n - 1], so that others who wait in an exchange get -EPIPE. Returns 0; -EPROTO if
 * a PE has sent what others have not, or more than NICLESS_PES_LOCAL_MOST bytes; or -ENOMEM.
 * It may block as long as a PE takes no part.
 */
static inline int nicless_pes_local_serve(const int *fd, int n) {
	char *all = 0;
	int i, error;
	do
		error = nicless_pes_local_turn(fd, n, &all);
	while (error == 0);
	free(all);
	for (i = 0; i < n; i++)
		close(fd[i]);
	return error == -EPIPE ? 0 : error;
}

#endif
