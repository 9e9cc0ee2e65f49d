/* The library that verbs programs preload (the shim), and what its files share:
 *
 *   real.c       the functions that the library wraps
 *   start.c      the environment; whether there is anything to do
 *   process.c    the state of the process, which a fork clears, and the one lock
 *   guard.c      how the engine distinguishes this program from one that its process executes later
 *   connect.c    the connection to the server
 *   server.c     one request and its answer
 *   addresses.c  the addresses of the network namespace
 *   contexts.c   which sockets are devices
 *   lost.c       ends the program after the end of the engine, if it does not hear of it
 *   final.c      the last event of a device, and the errors after it
 *   copy.c       access to the program's memory without faults
 *   paths.c      paths below /sys and /dev/infiniband
 *   counter.c    files of counters
 *   ioctl.c      one ioctl
 *   write.c      one write to a channel
 *   route.c      how the kernel would send
 *   mad.c        files of management datagrams (MADs): ioctl, read and write
 *   mappings.c   what is mapped in this process
 *   movable.c    which pages may be moved into shared memory
 *   gpu.c        which of them the driver of a GPU has pinned; registers for a GPU
 *   heap.c       which of them are in the heap of malloc
 *   protect.c    write-protects pages
 *   remap.c      remaps pages into shared memory while threads run
 *   back.c       moves pages back
 *   fork.c       children get copies of remapped pages
 *   advise.c     madvise and mremap of remapped pages
 *   mmap.c       mmap of a device
 *   look.c       where programs look for devices in vain
 *   rings.c      memory that the server has given in advance
 *   alloc.c      memory that is shared from the start
 *   registers.c  UAR pages, which are mapped all at once
 *   clock.c      the device clock
 *   wake.c       posters wake the device
 *   netlink.c    sockets of NETLINK_RDMA
 *   wrap_*.c     the functions that programs call
 *
 * Nothing here calls a wrapped function except by NV_REAL. */
#ifndef NICLESS_VERBS_SHIM_H
#define NICLESS_VERBS_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <linux/netlink.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "wire.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !defined(__LP64__)
#error "nicless: a little-endian machine of 64 bits is needed"
#endif

#define NV_EXPORT __attribute__((__visibility__("default")))

/* start.c */

/* Returns the directory that NICLESS_VERBS names, or NULL: then the library does nothing. */
const char *nv_dir(void);

/* Returns what the user asked for: NV_WANT_*. */
uint32_t nv_wants(void);

/* Prints one line to standard error. Only the first call for each `once` prints. */
void nv_say(int *once, const char *format, ...) __attribute__((__format__(__printf__, 2, 3)));

/* process.c */

/* Identifies a socket: no other socket has the same identity, even if it later gets the same
 * descriptor number or inode number. Or identifies a pipe. */
struct nv_identity {
	uint64_t ino;
	uint64_t cookie; /* of a pipe: st_dev */
};

/* A device that the program has opened or got. */
struct nv_context {
	struct nv_identity id;
	uint32_t generation; /* number of the connection over which it was opened or adopted */
	dev_t rdev;
};

/* Bytes of the program's memory that go into a request from where they are. */
struct nv_lent {
	size_t at; /* they follow so many bytes of out */
	uint64_t from;
	size_t bytes;
};

enum { NV_MAX_LENT = 24 };

/* The bytes from at to end that the server has given in advance for mappings of a context (rings.c). */
struct nv_rest {
	struct nv_identity context;
	uint32_t generation; /* number of the connection */
	uint64_t offset, alike;
	uint64_t at, end; /* equal: nothing */
};

enum { NV_RESTS = 8 }; /* of more contexts than this in turns, each mapping needs a request */

/* The state of this process. While all of it is 0, the process has done nothing yet. */
struct nv_process {
	pid_t pid;
	pthread_mutex_t lock; /* guards all that follows */

	uint32_t generation; /* number of the connection; 0: there is none */
	uint16_t minor;      /* of the server's version */
	/* A connection of this process has ended, and with it the contexts of that connection. */
	bool lost;
	int fd;
	struct nv_identity self; /* identity of fd */
	uint32_t tag;

	uint32_t rooted;  /* 0: unknown; n: root[n - 1] holds. Written last, read without the lock */
	/* Directory, below the server's, of the tree for this process; empty: the server's own. */
	char root[2][64];

	struct nv_context last; /* what the descriptor last_fd was at the last ioctl; generation 0: nothing */
	int last_fd;

	struct nv_registers *registers; /* list of the UAR pages of each context */
	uint32_t looked;   /* bits of the NV_AT_* where the program has looked; changed without the lock */
	uint32_t reported; /* those of which the server knows */
	struct nv_rest rests[NV_RESTS];
	unsigned next_rest;
	struct nv_pin *pins, *late;     /* what a GPU's driver has pinned, and what waits for it (gpu.c) */
	uint64_t answers;               /* number of objects that this driver has made */
	const uint64_t *guard;          /* NULL: not made yet */

	size_t out_length; /* more than the size of out: the request did not fit */
	struct nv_lent lent[NV_MAX_LENT];
	int lent_count;
	size_t lent_bytes; /* of all lent, padded */
	bool unsent;       /* the last request could not be sent, and the connection is intact */
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

/* Locks the process, with signals and cancellation blocked; NULL, with errno set, on failure. */
struct nv_process *nv_enter(struct nv_entry *e);

/* Unlocks the process. Returns 0 with errno as it was before nv_enter, or -1 with errno = error. */
int nv_leave(struct nv_process *p, const struct nv_entry *e, int error);

/* valgrind.c: with 1, valgrind reports no errors of this thread until the call with
 * -1. Calls can be nested. */
void nv_quiet(int change);
bool nv_in_valgrind(void);

/* Returns the state without the lock, for fields that are used without it; NULL: there is none. */
struct nv_process *nv_peek(void);

/* guard.c: called under the lock. Returns NULL if the guard could not be made. */
const uint64_t *nv_guard(struct nv_process *p);

/* connect.c: all but nv_identify are called under the lock. */

int nv_connect(struct nv_process *p);    /* connects, unless connected; returns 0 or an errno */
bool nv_connected(struct nv_process *p); /* checks also that p->fd is still the connection's socket */
void nv_give_up(struct nv_process *p);   /* gives up the connection and its contexts */

/* Stores in *id which socket or pipe fd is. st, unless NULL, is the result of fstat. Returns
 * false if fd is neither. */
bool nv_identify(int fd, const struct stat *st, struct nv_identity *id);

/* server.c: all are called under the lock. */

void nv_begin(struct nv_process *p, uint16_t op, uint64_t context);
/* Appends zeros to the request; NULL: it would be too long. */
void *nv_room(struct nv_process *p, size_t bytes);

/* Appends bytes of the program's memory to the request, padded, without copying them here. Returns
 * false if there are too many pieces; then the caller copies. */
bool nv_lend(struct nv_process *p, uint64_t from, size_t bytes);

/* Sends the request; returns 0, or an errno of the answer or connection. The errno is EFAULT also if
 * lent memory could not be read; unsent then says so. */
int nv_ask(struct nv_process *p);

void nv_close_fds(struct nv_process *p);           /* closes descriptors of the answer that were not taken */
int nv_take_fd(struct nv_process *p, uint32_t n);  /* takes the n-th descriptor of the answer; -1: none */

/* Returns the next bytes of the answer, padded to a multiple of 8; NULL: it has no more. */
struct nv_reader {
	const uint8_t *at;
	size_t left;
};
struct nv_reader nv_answer(const struct nv_process *p);
const void *nv_next(struct nv_reader *r, size_t bytes);

/* addresses.c */

/* Sends the addresses of the network namespace of this thread. Called under the lock. Returns 0
 * or an errno; EIO: the connection has ended. */
int nv_tell_addresses(struct nv_process *p);

/* contexts.c: contexts, and channels too, which are recognised by the number of their device */

/* Reports whether fd is a context in the table. st, unless NULL, is the result of fstat. Takes no lock. */
bool nv_context_of(int fd, const struct stat *st, struct nv_context *c);
bool nv_is_channel(const struct nv_context *c);
bool nv_is_mad(const struct nv_context *c); /* a file of management datagrams */

/* Reports whether this process may have files of MADs. Each read and write asks this first. */
extern uint32_t nv_mads;
static inline bool nv_has_mads(void) { return __atomic_load_n(&nv_mads, __ATOMIC_RELAXED) != 0; }
void nv_context_add(const struct nv_context *c); /* called under the lock */

/* Stores in *c which context fd is, and asks the server if fd is not in the table. Returns
 * 0, ENOTTY if fd is no context, or another errno. Called under the lock. */
int nv_adopt(struct nv_process *p, int fd, struct nv_context *c);

/* The device /dev/infiniband/rdma_cm, and the first of umad and issm, among the numbers of uverbs devices. */
enum { NV_CHANNEL = 1 << 30, NV_MAD = 1 << 29 };

/* Opens /dev/infiniband/uverbsN, where N is `device`: returns a descriptor, or -1 with errno set. */
int nv_open_device(uint32_t device, int flags);

/* lost.c */

/* Arranges that this process ends some time after the other end of fd, a context's socket, is closed, unless
 * nv_heard is called. */
void nv_watch(int fd);

/* Notes that the program has read DEVICE_FATAL, or DEVICE_REMOVAL of rdma_cm. */
void nv_heard(void);

/* final.c */

/* Notes a descriptor of a device: for asynchronous events, or a completion channel. Called under the
 * lock. */
void nv_final_add(const struct nv_process *p, int fd, bool events);

/* Returns the result of a read of at most count bytes from fd, and sets errno if that is -1. n is the
 * kernel's result, 0 or more, with so many bytes in data. */
ssize_t nv_final_read(int fd, void *data, size_t count, ssize_t n);

/* Reports whether there are such descriptors. */
extern uint32_t nv_ends;
static inline bool nv_has_ends(void) { return __atomic_load_n(&nv_ends, __ATOMIC_RELAXED) != 0; }

/* removal.c. Both are called under the lock; `channel` is the st_ino of a channel's pipe, and `written` a
 * command. */

/* Notes what the server has answered to a command, which is in p, about ids. */
void nv_removal_note(const struct nv_process *p, uint64_t channel, const uint8_t *written, size_t bytes);

/* Answers a command to a channel whose server has gone: GET_EVENT and DESTROY_ID. Returns 0 or errno, which
 * is EIO if the server is there, or there is no answer. */
int nv_removal(const struct nv_process *p, int fd, uint64_t channel, const uint8_t *written, size_t bytes);

/* Returns the cookie of a socket; 0: fd is no socket, or the kernel has no cookies. */
uint64_t nv_cookie(int fd);

/* copy.c: all return 0 or EFAULT. */
int nv_fetch(const struct nv_process *p, void *to, uint64_t from, size_t bytes);

/* Copies least bytes, and as many more as can be read, up to most. Stores their number in *bytes. */
int nv_fetch_some(const struct nv_process *p, void *to, uint64_t from, size_t least, size_t most,
                  size_t *bytes);

/* Copies pieces to the program, in order. here and there have the same lengths. */
int nv_store(const struct nv_process *p, const struct iovec *here, const struct iovec *there, int count);

/* Copies whole pages, by no function that a sanitizer could have replaced. */
void nv_copy_pages(void *to, const void *from, size_t bytes);

/* mappings.c */

struct nv_maps {
	int fd;
	bool queries;      /* the kernel answers for one address; else the text is read */
	uint64_t last;     /* end of the row that was read last */
	size_t begin, end; /* the part of the text that was read and not used */
	char text[4608];   /* a row: a path of 4096 bytes, and numbers */
};

struct nv_mapping {
	uint64_t start, end;
	int prot;    /* PROT_* */
	bool shared; /* MAP_SHARED */
	bool file;   /* it is of a file, or of memory with a name in the file system */
	bool ours;   /* nv_remap has made it */
	bool served; /* server or engine have made its memory: moved pages, rings, registers */
	bool huge;   /* private huge pages (hugetlb) */
};

int nv_maps_open(struct nv_maps *m); /* returns 0 or an errno */
void nv_maps_close(struct nv_maps *m);

/* Stores in *v the first mapping that ends after addr. Returns 0, ENOENT if there is none, or another
 * errno. */
int nv_maps_next(struct nv_maps *m, uint64_t addr, struct nv_mapping *v);

/* Reports whether the program has locked the mapping at addr (mlock). This takes long. */
bool nv_locked(uint64_t addr);

/* movable.c */

struct nv_kind {
	bool alone;                   /* this process has no other thread */
	bool again;                   /* a part is shared memory already, from an earlier call of nv_remap */
	bool huge;                    /* a part is in huge pages */
	/* They are in the heap of malloc, and have to be the program's own again when they are not used any
	 * more. */
	bool heap;
	int prot;                     /* how the pages may be used, PROT_* */
	unsigned long locked, pinned; /* KiB in the whole process */
};

bool nv_alone(void);

/* Returns 0 if the pages may be moved, and stores what they are; else an errno: EBUSY for stacks and
 * memory of this library, EFAULT for addresses where nothing is mapped, EOPNOTSUPP for memory that is not
 * private, not both readable and writable, or usable in different ways in different pages, EADDRNOTAVAIL
 * if a GPU's driver has pinned some of them. If the pages may stay where they are, also EADDRINUSE if
 * malloc may have data in them, ETXTBSY if memory of the process is pinned, and EXDEV if a GPU may use it.
 * Called under the lock. */
int nv_movable(const struct nv_process *p, uint64_t addr, uint64_t length, bool may_stay,
               struct nv_kind *kind);

/* gpu.c */

void nv_open_gpu(void); /* from now on this process may have memory that the driver of a GPU has pinned */
bool nv_has_gpu(void);

/* Reports whether NVIDIA's driver has pinned a part of the range. Called under the lock. */
bool nv_pinned(const struct nv_process *p, uint64_t addr, uint64_t length);

/* nv_back, but pages of which the driver has pinned some stay where they are until it has unpinned all.
 * Called under the lock, as the next one. */
void nv_back_unpinned(struct nv_process *p, uint64_t addr, uint64_t length);

/* Pages that have been moved again do not go back because of an earlier request. */
void nv_not_late(struct nv_process *p, uint64_t addr, uint64_t length);

/* Reports whether an ioctl, if its descriptor is of that driver, pins or unpins memory. */
bool nv_is_gpu_ioctl(unsigned long request);
int nv_gpu_ioctl(int fd, unsigned long request, void *arg); /* as ioctl */

/* heap.c: reports whether some of the pages are in the heap of malloc, and stores in *whole whether all of
 * them belong to one block. If they are not in the heap, *whole is true. Called under the lock. */
bool nv_in_heap(const struct nv_process *p, uint64_t addr, uint64_t length, bool *whole);

/* protect.c: all but the first two, which return 0 or an errno or a truth value, need a protector. */

struct nv_protector {
	int fd;
	bool populates; /* pages are made present before they are protected */
};

bool nv_has_uffd(void);
int nv_protector(struct nv_protector *u);
void nv_protector_end(struct nv_protector *u);
/* Pages of this range are to be protected. */
int nv_protect_range(const struct nv_protector *u, uint64_t addr, uint64_t length);
int nv_protect(const struct nv_protector *u, uint64_t addr, uint64_t length);
/* After the pages were replaced. */
void nv_unprotect(const struct nv_protector *u, uint64_t addr, uint64_t length);

/* fork.c */
void nv_moved(void);            /* from now on this process may have remapped memory */
bool nv_has_moved(void);        /* whether it may have some */
void nv_before_fork(void);      /* these three are the handlers of fork */
void nv_fork_in_parent(void);
void nv_fork_in_child(void);
/* Whether a system call, with its first arguments, forks. */
bool nv_is_fork(long number, uint64_t first, uint64_t second);
void nv_forked(void);           /* this process is a child, perhaps one for which no handler has run */

/* advise.c: each returns false if the call is none of this library's business. Else it has made the call, and
 * stores the result, with errno set as the kernel does. */
bool nv_madvise(int *result, uint64_t addr, uint64_t length, int advice);
bool nv_mremap(uint64_t *result, uint64_t from, uint64_t length, uint64_t wanted, int flags, uint64_t to);

/* remap.c: moves pages into shared memory, as NV_NEED_REMAP says, or NV_NEED_TRY_REMAP if
 * may_stay. Stores in *heap whether they are in the heap of malloc. Returns 0 or an errno. Called under the
 * lock. */
int nv_remap(const struct nv_process *p, uint64_t addr, uint64_t length, int memory, uint64_t offset,
             bool may_stay, bool *heap);

/* back.c: makes pages that nv_remap has moved the program's own again, with their contents. If that is not
 * possible they stay as they are. Called under the lock. */
void nv_back(uint64_t addr, uint64_t length);

/* ioctl.c: returns 0 or an errno; ENOTTY: fd is no context. */
int nv_ioctl(int fd, uint64_t arg);

/* write.c: returns 0 or an errno; EBADF: fd is no channel. */
int nv_write(int fd, const void *data, size_t count);

/* write.c: writes the answer in p to the program's memory, and stores in *bytes how many; 0 or an errno. */
int nv_write_answer(struct nv_process *p, uint64_t *bytes);

/* mad.c: each returns false if fd is no file of MADs. Else it has made the call, and stores the result,
 * with errno set if that is negative. */
bool nv_mad_ioctl(int *result, int fd, unsigned long request, uint64_t arg);
bool nv_mad_read(ssize_t *result, int fd, void *data, size_t count);
bool nv_mad_write(ssize_t *result, int fd, const void *data, size_t count);

/* route.c: stores the address from which the kernel would send. Returns 0 or an errno. */
int nv_find_route(const struct nv_route *r, uint8_t own[NV_ADDRESS]);

/* netlink.c: sockets of NETLINK_RDMA. Results of -1 have errno set. Called without the lock. */

bool nv_is_netlink(int fd);
int nv_netlink_open(int type); /* as socket */
int nv_netlink_bind(int fd, const struct sockaddr_nl *a);
/* Gives the socket a port id if it has none. -1: nobody is at this address. */
int nv_netlink_reach(int fd, const struct sockaddr_nl *to);
/* As getsockname and getpeername, whose room is in *length too. */
int nv_netlink_name(int fd, struct sockaddr *to, socklen_t room, socklen_t *length);
void nv_netlink_peer(struct sockaddr *to, socklen_t room, socklen_t *length);
int nv_netlink_set(int fd, int option, uint32_t value); /* options of SOL_NETLINK */
int nv_netlink_get(int fd, int option, uint32_t *value);

/* Changes the result n of a receiving call to what the program is to see: the sender's address, and an error
 * if messages were lost or the server has ended. data is the first piece of the program's memory, NULL if it
 * has no bytes. */
ssize_t nv_netlink_received(int fd, ssize_t n, const void *data, int flags, struct sockaddr *from,
                            socklen_t room, socklen_t *length);

/* mmap.c */
void *nv_sys_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);

/* Seals memory that is mapped here: from then on no process can punch holes into the memory
 * or map it for writing. Returns 0 or an errno. */
int nv_seal(int memory);

/* Makes a mapping of any kind: reserves addresses, sends the request, maps the memory of the
 * answer there, seals the memory, and stores its address in *at. context may be NULL. Called
 * under the lock. Returns 0 or an errno. */
int nv_map(struct nv_process *p, uint16_t op, const struct nv_identity *context, void **at, size_t length,
           int prot, int flags, uint64_t offset);

/* look.c: notes that the program looks for devices at an absolute path, if that is such a place. Called
 * without the lock. */
void nv_look(const char *path);
void nv_report_looks(struct nv_process *p); /* called under the lock, over a connection */

/* rings.c: memory that the server has given in advance. Called under the lock. */

/* Takes the bytes of a mapping; NULL: there are none. */
void *nv_rest_take(struct nv_process *p, const struct nv_identity *context, const void *at, size_t length,
                   int prot, int flags, uint64_t offset);
/* How many bytes to reserve for a mapping of length bytes. */
size_t nv_rest_room(const struct nv_process *p, const void *at, size_t length, int prot, int flags);
/* Keeps the bytes from at to end, which are mapped. */
void nv_rest_keep(struct nv_process *p, const struct nv_identity *context, uint64_t offset, uint64_t alike,
                  uint64_t at, uint64_t end);

/* registers.c: maps a UAR page of a context at `at`, as the answer m says. memory is the
 * descriptor that came with the answer, or -1. Called under the lock. Returns 0 or an errno. */
int nv_map_registers(struct nv_process *p, const struct nv_identity *context, const struct nv_mapped *m,
                     int memory, void *at, size_t length, int prot);

/* Makes a copy at `at` of this process's own shared mapping at `from`. Returns 0 or an errno: EINVAL under
 * valgrind, which has no such copies. */
int nv_map_copy(uint64_t from, void *at, size_t length, int prot);

/* clock.c and wake.c: called when a device of ours was opened, and wake.c's when a device is closed, and when
 * a queue pair has changed its state. */
struct nv_ibv_context;
struct nv_ibv_qp_ex;
void nv_clock_open(struct nv_ibv_context *context);
void nv_wake_open(struct nv_ibv_context *context);
void nv_wake_close(struct nv_ibv_context *context);
void nv_wake_queue(struct nv_ibv_qp_ex *qp);

/* paths.c */

enum { NV_PATH = 1024 };

struct nv_place {
	const char *path; /* to use in place of the program's */
	int64_t device;   /* path is the file of this uverbs, which contains its number; -1: no device */
	char room[NV_PATH];
};

/* dir is the descriptor of the directory to which a relative path is relative, or AT_FDCWD. */
void nv_find_at(int dir, const char *path, struct nv_place *place);
void nv_find(const char *path, struct nv_place *place);

/* Stores in `root`, of NV_PATH bytes, the directory that has the tree "sys" for this process. Asks the
 * server for it if this is the first time. Returns false if there is no server's directory. */
bool nv_root(char *root);

/* Remembers the name of that directory. Called under the lock. */
void nv_set_root(struct nv_process *p, const char *name);

/* Changes the result of stat for the file of a device to the result for the device. */
int nv_as_device(const struct nv_place *place, struct stat *st);
void nv_be_device(struct stat *st, dev_t rdev);

/* Changes a path in the directory of the server to the one that the program sees, in place, and
 * returns it. path may be NULL. Paths are compared by their names, so none is changed if the name of the
 * directory contains a symbolic link. */
char *nv_unfind(char *path);

/* Returns the rest of a path after the directory of the server, or of a namespace in it, or NULL. */
const char *nv_within(const char *path);

/* counter.c */

/* If fd was opened by `path` and is the file of a counter, replaces the file by its text of now. Returns
 * fd, which may be -1; errno stays as it is. */
int nv_counter(int fd, const char *path);

#endif
