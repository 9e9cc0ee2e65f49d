/* What the files of the shim know of each other.
 *
 *   real.c      the functions that we stand before
 *   start.c     is there anything to do? the environment
 *   process.c   state that a fork empties; the one lock
 *   guard.c     how the server knows this program from the next one
 *   connect.c   the connection to the server
 *   server.c    one request, one answer
 *   contexts.c  which sockets are devices
 *   lost.c      the engine has gone
 *   copy.c      the program's memory, without faults
 *   paths.c     names below /sys and /dev/infiniband
 *   ioctl.c     an ioctl there and back
 *   remap.c     pages become shared memory under running threads
 *   mmap.c      mapping a device; alloc.c: memory shared from birth
 *   registers.c pages of registers, which are mapped all at once
 *   wrap_*.c    the functions that programs call
 *
 * Nothing here calls a function that we stand before, except by NV_REAL. */
#ifndef NICLESS_VERBS_SHIM_H
#define NICLESS_VERBS_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "wire.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !defined(__LP64__)
#error "nicless: a little-endian machine of 64 bits is needed"
#endif

#define NV_EXPORT __attribute__((__visibility__("default")))

/* start.c */

/* The directory that NICLESS_VERBS names, or NULL: then the shim does nothing. */
const char *nv_dir(void);

/* What the program's user asked for: NV_WANT_*. */
uint32_t nv_wants(void);

/* Prints one line, the first time that `once` is seen. */
void nv_say(int *once, const char *format, ...) __attribute__((__format__(__printf__, 2, 3)));

/* process.c */

/* A socket, and no other that has or had its number. */
struct nv_identity {
	uint64_t ino;
	uint64_t cookie;
};

/* All zero is the state of a process that has done nothing yet. */
struct nv_process {
	pid_t pid;
	pthread_mutex_t lock; /* guards all that follows */

	uint32_t generation; /* of the connection; 0: there is none */
	int fd;
	struct nv_identity self; /* of fd */
	uint32_t tag;

	struct nv_registers *registers; /* of each context */
	const uint64_t *guard;          /* NULL: not made yet */

	size_t out_length; /* more than the buffer: it did not fit */
	int out_fds[NV_MAX_FDS];
	int out_count;

	size_t in_length;
	int in_fds[NV_MAX_FDS];
	int in_count;

	uint8_t out[NV_MAX_DATAGRAM] __attribute__((__aligned__(8)));
	uint8_t in[NV_MAX_DATAGRAM] __attribute__((__aligned__(8)));
};

struct nv_entry {
	sigset_t signals;
	int cancel;
	int error;
};

/* Locks the process, with signals and cancellation held off. NULL: errno says why not. */
struct nv_process *nv_enter(struct nv_entry *e);

/* Unlocks it. Returns 0 with errno as it was before, or -1 with errno = error. */
int nv_leave(struct nv_process *p, const struct nv_entry *e, int error);

/* guard.c: under the lock. NULL: there is none to be had. */
const uint64_t *nv_guard(struct nv_process *p);

/* connect.c: all under the lock but nv_identify. */

int nv_connect(struct nv_process *p);    /* unless connected: 0 or an errno */
bool nv_connected(struct nv_process *p); /* and the descriptor is still ours */
void nv_give_up(struct nv_process *p);   /* the connection, and what it knows */

/* Stores which socket fd is; st, unless NULL, is what fstat said of it. */
bool nv_identify(int fd, const struct stat *st, struct nv_identity *id);

/* server.c: all under the lock. */

void nv_begin(struct nv_process *p, uint16_t op, uint64_t context);
void *nv_room(struct nv_process *p, size_t bytes); /* zeroed, at the request's end; NULL: too long */
int nv_ask(struct nv_process *p);                  /* 0 or an errno, of the answer or of the connection */
void nv_close_fds(struct nv_process *p);           /* those of the answer that nobody took */
int nv_take_fd(struct nv_process *p, uint32_t n);  /* that descriptor is the caller's; -1: none */

/* contexts.c */

struct nv_context {
	struct nv_identity id;
	uint32_t generation; /* of the connection that knows it */
	dev_t rdev;
};

/* Is fd a context that we know? st, unless NULL, is what fstat said of it. Takes no lock. */
bool nv_context_of(int fd, const struct stat *st, struct nv_context *c);
void nv_context_add(const struct nv_context *c); /* under the lock */

/* Stores in *c what fd is, asking the server about a socket that we do not know.
 * Returns 0, ENOTTY for what is no context, or another errno. Under the lock. */
int nv_adopt(struct nv_process *p, int fd, struct nv_context *c);

/* Opens uverbs `device`: a descriptor, or -1 with errno set. */
int nv_open_device(uint32_t device, int flags);

/* lost.c */

/* Ends this process when the other end of a context's socket is closed. */
void nv_watch(int fd);

/* copy.c: 0 or EFAULT */
int nv_fetch(const struct nv_process *p, void *to, uint64_t from, size_t bytes);
int nv_store(const struct nv_process *p, uint64_t to, const void *from, size_t bytes);

/* remap.c */
bool nv_has_uffd(void);
int nv_remap(const struct nv_process *p, uint64_t addr, uint64_t length, int memory, uint64_t offset);

/* ioctl.c: an errno; ENOTTY: fd is not ours. */
int nv_ioctl(int fd, uint64_t arg);

/* mmap.c */
void *nv_sys_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);

/* Forbids everybody to punch holes into memory that is mapped here, and to map it for
 * writing from now on. 0 or an errno. */
int nv_seal(int memory);

/* The part of a mapping that is the same for every kind: reserves the addresses,
 * asks, maps the answer's memory there and seals it. context may be NULL. Under the
 * lock. Stores where in *at. */
int nv_map(struct nv_process *p, uint16_t op, const struct nv_identity *context, void **at, size_t length, int prot,
           int flags, uint64_t offset);

/* registers.c: maps length bytes of a context's registers, as an answer says, at `at`. memory is what came
 * along, or -1. Under the lock. 0 or an errno. */
int nv_map_registers(struct nv_process *p, const struct nv_identity *context, const struct nv_mapped *m, int memory,
                     void *at, size_t length, int prot);

/* paths.c */

enum { NV_PATH = 1024 };

struct nv_place {
	const char *path; /* to use in place of the program's */
	int64_t device;   /* path is the file "dev" of this uverbs; -1: no device */
	bool ours;        /* path is in the directory of nicless */
	char room[NV_PATH];
};

void nv_find(const char *path, struct nv_place *place);

/* Makes of what stat said of the file "dev" what it would say of the device. */
int nv_as_device(const struct nv_place *place, struct stat *st);
void nv_be_device(struct stat *st, dev_t rdev);

/* Turns a path below our directory into that of the program's view, in place. */
void nv_unfind(char *path);

#endif
