/* One of two ends that work with each other. The ends are two threads with a context each, or
 * two processes. Both run the same list of steps, and the active end posts. The ends talk over
 * a socket. In each exchange both ends send, so each exchange is a barrier too. */
#ifndef NICLESS_CHECK_END_H
#define NICLESS_CHECK_END_H

#include "check.h"

enum { DEPTH = 64, PIECES = 4, INLINE = 64 };

struct end {
	int talk; /* socket to the other end */
	int active;
	int apart;           /* the ends are on different hosts */
	int mixed;           /* with devices of different kinds */
	int lossy;           /* the network loses packets, and so the NAK of a request that must fail */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;   /* completions of sends */
	struct ibv_cq *rcq;  /* completions of receives */
	struct ibv_srq *srq;
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint8_t gid_index;
	enum ibv_mtu mtu;    /* of connections: the smaller one of both ends */
};

/* A queue pair and its peer. */
struct link {
	struct ibv_qp *qp;
	struct ibv_ah *ah;   /* for UD */
	uint32_t peer;       /* QP number of the peer */
};

struct key {
	uint64_t addr;
	uint32_t rkey;
	uint32_t zero;
};

void end_open(struct end *e, int talk, int active, const char *device, uint8_t gid_index);
void end_close(struct end *e);

/* Sends mine to the other end and receives the same number of bytes. */
void swap(struct end *e, const void *mine, void *theirs, size_t n);
/* Waits until the other end is at the same step. */
void meet(struct end *e, const char *step);
/* Both ends call this. It returns the key of the passive end's memory to each of them. */
struct key show(struct end *e, const struct ibv_mr *mr);

struct link_config {
	enum ibv_qp_type type;
	int srq;                /* receives come from the end's SRQ */
	int access;             /* access rights that the peer gets; 0: all */
	uint8_t rnr_retry;      /* 7: unlimited */
	uint8_t retry;          /* 0 means 7 */
	uint8_t timeout;        /* 0 means 14 */
	int self;               /* the queue pair is connected to itself; the other end takes no part */
};

/* Makes a queue pair and connects it to the one that the other end makes, or to itself. */
struct link link_open(struct end *e, const struct link_config *f);
void link_close(struct link *l);

#endif
