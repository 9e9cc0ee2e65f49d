/* The library that programs of `nicless record` preload, and what its files share:
 *
 *   file.c     the file of raw records of this process
 *   objects.c  the queues and keys that the process has made
 *   rings.c    copies WQEs, payload, completions and receives out of the rings
 *   taken.c    which completions the program may take, and which libmlx5 has removed
 *   work.c     functions that post and poll, which programs call by pointers
 *   calls.c    exported functions of libibverbs that make, change and destroy objects
 *   devx.c     exported functions of libmlx5 that make queues by firmware commands
 *   made.c     what mlx5dv_init_obj says of a new object
 *
 * A program is never disturbed: if something cannot be recorded, its call works all the same, and a record
 * says what is missing. No function of libibverbs is called while nr_lock is held. */
#ifndef NICLESS_RECORD_H
#define NICLESS_RECORD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "raw.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !defined(__LP64__)
#error "nicless: a little-endian machine of 64 bits is needed"
#endif

#define NR_EXPORT __attribute__((__visibility__("default")))

/* file.c */

/* Guards all state of this library. A fork takes it, so that the child finds whole state. nr_lock returns
 * false if the thread has the lock already: it is in a handler of a signal that has interrupted this library.
 * Calls of such a handler are not recorded; they may look objects up, and must not change anything. */
bool nr_lock(void);
void nr_unlock(void);

/* Writes a line to the standard error. Handlers of signals may call it, with formats of numbers. */
void nr_say(const char *format, ...) __attribute__((__format__(__printf__, 1, 2)));

/* Nanoseconds of CLOCK_MONOTONIC, which all processes of a host share. */
uint64_t nr_now(void);

/* Opens the file of this process if it is not open. Returns false if nothing is to be recorded. */
bool nr_open(void);

/* Whether this process records. A child records only devices that it has opened itself. */
extern bool nr_on;

/* Number of the process among those that forked from one another: objects of another one are not recorded. */
extern uint32_t nr_generation;

/* Appends a record. The bytes come from the program's memory: if they cannot be read, nothing is appended,
 * and nr_write returns false. After any other error (a full disk) nothing is recorded any more, and nr_write
 * returns true. The caller holds the lock. */
bool nr_write(struct nr_head *head, const void *data, size_t n);

/* Appends a record of kind NR_LOST. The caller holds the lock. */
void nr_lost(uint64_t id, enum nr_loss what);

struct nr_object;

/* Appends such a record of a queue that the program reads or writes itself. The caller holds the lock. */
void nr_lost_own(struct nr_object *o);

/* objects.c */

enum nr_type { NR_CONTEXT = 1, NR_CQ, NR_SRQ, NR_QP, NR_KEY };

struct nr_object {
	struct nr_object *next;    /* with the same hash */
	struct nr_object *by_number; /* QPs and keys: with the same hash of the number */
	const void *handle;        /* the struct of libibverbs */
	uint64_t id;
	enum nr_type type;
	bool going; /* a call destroys or resets it: what it points to may be gone */
	bool own;   /* the program has asked where its ring is, and called no function for it since */
	uint32_t generation;
	uint32_t number;
	struct nr_object *context;
	union {
		struct {
			struct ibv_context_ops ops; /* as they were */
			__typeof__(((struct verbs_context *)0)->create_cq_ex) create_cq_ex;
			__typeof__(((struct verbs_context *)0)->create_qp_ex) create_qp_ex;
			__typeof__(((struct verbs_context *)0)->create_srq_ex) create_srq_ex;
		} context;
		struct {
			const uint8_t *ring;
			const volatile __be32 *record;
			uint32_t entries, size;
			bool kept;          /* libmlx5 removes no entries, because mlx5dv_init_obj was called */
			uint64_t seen;      /* index of the next entry to copy */
			uint32_t *copied;   /* numbers of the QPs of entries that were copied and not taken, from */
			uint32_t at, count; /* index `at` on; a ring like that of the queue */
			uint32_t promised;  /* entries that threads may take, which poll now */
			uint32_t batch;     /* entries that start_poll and next_poll have taken since end_poll */
			uint32_t cleaning;  /* calls in which libmlx5 may remove entries; nothing is copied then */
			uint32_t taken;     /* index that the consumer had when these calls began */
			bool within;        /* they began between start_poll and end_poll */
			int (*start_poll)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
			int (*next_poll)(struct ibv_cq_ex *);
			void (*end_poll)(struct ibv_cq_ex *);
		} cq;
		struct {
			const uint8_t *ring;
			uint32_t entries, stride;
		} srq;
		struct {
			const uint8_t *sq, *rq;
			const volatile __be32 *record;
			uint8_t *shadow; /* the blocks as they were posted */
			uint32_t blocks, receives, stride;
			uint16_t posted, done; /* index after the last block that was copied, and that has ended */
			uint8_t type;
			bool cleans; /* see nr_cleans */
			struct nr_object *srq, *send_cq, *recv_cq;
			struct nr_qp_attributes attributes;
			int (*complete)(struct ibv_qp_ex *);
		} qp;
		struct {
			uint64_t address, iova, length;
			uint32_t access;
		} key;
	} u;
};

/* All of these need the lock. */
struct nr_object *nr_find(enum nr_type type, const void *handle);
struct nr_object *nr_number(enum nr_type type, const struct nr_object *context, uint32_t number);
struct nr_object *nr_add(enum nr_type type, const void *handle, struct nr_object *context, uint32_t number);
void nr_remove(struct nr_object *o);
void nr_each(enum nr_type type, void (*f)(struct nr_object *));

/* Whether what is done with o is recorded. */
bool nr_records(const struct nr_object *o);

/* rings.c; all need the lock. */

/* Records the WQEs that were posted since the last call. They were posted after the time. */
void nr_copy_posted(struct nr_object *qp, uint64_t time);

/* Records the completions that the device has written since the last call. */
void nr_copy_completions(struct nr_object *cq);

/* Copies completions and returns how many of them the program may take, which the caller promises to a
 * thread. No entry is taken that was not copied, or promised twice. */
uint32_t nr_ready(struct nr_object *cq);

/* Notes that the program has taken n entries. */
void nr_taken(struct nr_object *cq, uint32_t n);

/* Whether the program has taken entries that were not copied. */
bool nr_missed(const struct nr_object *cq);

/* Surround a call that destroys or resets a QP: libmlx5 removes its entries of the queue then, and moves the
 * others to the end. */
void nr_cleans(struct nr_object *cq);
void nr_cleaned(struct nr_object *cq, uint32_t number, bool done);

/* work.c */
void nr_wrap_context(struct nr_object *o, struct ibv_context *context);
void nr_wrap_cq(struct nr_object *o, struct ibv_cq_ex *cq);
void nr_wrap_qp(struct nr_object *o, struct ibv_qp_ex *qp);

/* calls.c: a function of another library, NULL if there is none. */
typedef void (*nr_any_function)(void);
nr_any_function nr_real(const char *name);
#define NR_REAL(name) ((__typeof__(&(name)))nr_real(#name))

/* Begins an exported function: f is that function of the other library. Without it, the call has failed. */
#define NR_CALL(failed, name, ...)                                                                  \
	__typeof__(&(name)) f = NR_REAL(name);                                                      \
	if (!f) {                                                                                   \
		errno = ENOSYS;                                                                     \
		return failed;                                                                      \
	}

/* made.c; these take the lock. A NULL is passed over. They are called after the object was made: its number
 * may have been that of another object until then. */
void nr_made_context(struct ibv_context *context);
void nr_made_cq(struct ibv_cq *cq, bool extended);
void nr_made_srq(struct ibv_srq *srq);
void nr_made_qp(struct ibv_qp *qp);
void nr_made_key(struct ibv_mr *mr, uint64_t address, uint64_t iova, uint32_t access);

#endif
