/* Functions that the programs in this directory share: reporting a failure, and patterns of
 * bytes that can be distinguished. The programs are ordinary verbs programs; only the kind of
 * memory named "shared" (memory.c) is specific to nicless. */
#ifndef NICLESS_CHECK_H
#define NICLESS_CHECK_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

/* Ends the program with a message that has the place and the reason of the failure. */
void fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)
#define MUST(is) ((is) ? (void)0 : FAIL("not true: %s (errno: %s)", #is, strerror(errno)))
/* For functions that return 0 or an errno. */
#define DO(call)                                                          \
	do {                                                                  \
		int error_ = (call);                                              \
		if (error_)                                                       \
			FAIL("%s: %s", #call, strerror(error_ < 0 ? errno : error_)); \
	} while (0)
#define SAME(got, want)                                                                          \
	do {                                                                                         \
		unsigned long long got_ = (unsigned long long)(got), want_ = (unsigned long long)(want); \
		if (got_ != want_)                                                                       \
			FAIL("%s is %#llx, not %#llx", #got, got_, want_);                                   \
	} while (0)

/* The thread's present step, for the message of a failure. */
extern __thread char doing[160];

/* Each seed gives another pattern of bytes. Returns the byte of that pattern at an index. */
uint8_t pattern_byte(uint64_t seed, size_t index);
/* Returns the index of the first byte of memory that differs from the pattern, from its byte at index
 * `first` onwards, or n. */
size_t pattern_differs(const uint8_t *at, uint64_t seed, size_t first, size_t n);
/* Write the pattern, from its byte at index `first` onwards, to memory, or check that it is there. */
void pattern_fill(uint8_t *to, uint64_t seed, size_t first, size_t n);
void pattern_check(const uint8_t *at, uint64_t seed, size_t first, size_t n, const char *what);

/* Makes a file in TMPDIR, or in /tmp, and returns its descriptor and its name. */
int temporary_file(char name[], size_t room);

/* Opens the named device; NULL: the first one. */
struct ibv_context *open_device(const char *name);

/* Takes a queue pair in INIT to RTS, connected to a peer on the same device. */
void connect_with(struct ibv_qp *qp, const struct ibv_qp *peer);

/* Waits for one completion, at most a minute. */
void wait_completion(struct ibv_cq *cq, struct ibv_wc *wc);

#endif
