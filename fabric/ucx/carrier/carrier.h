/*
 * nicless-ucx moves packets between the rings of an engine and other engines, over UCX. The engine's
 * process starts it, shares memory with it, and decides everything; control.h has their messages.
 * One thread does all of it.
 *
 *	library.c    finding libucp
 *	ring.c       rings of packets
 *	gate.c       sockets: libucx listens nowhere, and connects only to peers after their meeting
 *	connect.c    connections with peers: opening, seeing that a peer is dead, closing
 *	say.c        messages of two carriers besides packets; the prefix of each message
 *	seal.c       tags and encryption, with libcrypto
 *	packets.c    packets: from the ring to peers, and from peers to the ring
 *	control.c    messages from and to the engine's process
 *	main.c       the loop: when it looks, sleeps and wakes
 */
#ifndef NICLESS_UCX_CARRIER_H
#define NICLESS_UCX_CARRIER_H

#include "abi.h"
#include "gate.h"
#include "ring.h"
#include "seal.h"

enum {
	CONNECTIONS = 64, /* the engine has at most so many at once */
	/* UCX needs some time to close a connection that the engine counts no more. */
	PLACES = 2 * CONNECTIONS,
	PATHS = 256, /* slots of the table of paths; a path's slot is its number modulo this */
	TOKEN = 16,
	WORKER_ADDRESS = 16384, /* most bytes of a worker address of UCX */

	/* The limit of what a peer may send before it gets word that packets have left this process. */
	WINDOW_PACKETS = 256,
	WINDOW_BYTES = 4 << 20,
};

#define MILLISECOND ((uint64_t)1000000)
#define SECOND (1000 * MILLISECOND)

enum state { FREE, SHAKING, UP, CLOSING };

/* A connection with a peer: one endpoint of UCX. */
struct connection {
	enum state state;
	uint32_t number;   /* given by the engine's process; never used again */
	uint32_t path;     /* path number of the peer */
	bool active;       /* this side begins; the other one waits for its first message */
	bool called;       /* the peer has sent its SAY_ACCEPT */
	unsigned char here[TOKEN];  /* in messages from the peer; never used again */
	unsigned char there[TOKEN]; /* in messages to the peer */
	struct seal seal;
	void *worker_address; /* of the peer; NULL when the endpoint was made */
	void *ep;
	request closing;   /* of ucp_ep_close_nbx */
	const char *fault; /* it has to be closed, because of this; NULL: it has not */
	char why[200];     /* what fault points at, if the engine's process has sent the reason */
	bool mute;         /* the endpoint has failed: no message can be sent any more */
	unsigned flying;   /* sends that are not complete */
	uint64_t since, heard, spoken; /* times: when it began; of the last message each way */
	uint64_t stuck;    /* since when a packet waits for credits; 0: none does */

	/* Credits, counted since the connection began. This side has sent at most what the peer has
	 * granted, and the other way round. */
	uint64_t sent_packets, sent_bytes, may_packets, may_bytes;
	uint64_t got_packets, got_bytes, granted_packets, granted_bytes, told_packets, told_bytes;
	uint64_t dropped;  /* packets for the peer that were dropped, because it does not take them */
	uint64_t reported; /* sent + got + dropped, as last reported to the engine's process */
};

/* Words of the shared memory, and where the rings begin. Each is written by one side. */
enum {
	ASLEEP_AT = 0,        /* u32, this program: number of its sleep; 0: awake */
	ENGINE_ASLEEP_AT = 64, /* u32, the engine: number of its sleep; 0: awake */
	RINGS_AT = 4096,
};

struct carrier {
	struct connection connections[PLACES];
	struct connection *paths[PATHS];
	unsigned up;        /* connections whose state is UP */
	uint64_t now;       /* in nanoseconds */
	uint64_t deadline;  /* after so long a silence a peer is dead */
	bool attention;     /* a connection has a fault, or a message to send */

	void *worker;
	int efd;
	unsigned char *memory;
	struct ring out, in; /* from the engine, to the engine */
	uint64_t out_done;   /* packets of out that are freed */
	struct op *ops;      /* one for each slot of out */
	struct held *held, **held_end; /* packets that the ring to the engine has no room for */
	bool put;            /* packets were put into the ring to the engine */
	uint32_t answered;   /* sleep of the engine that was ended */

	/* Messages that no nicless sends; of no connection; with a wrong tag, or that came before. */
	uint64_t violations, strangers, forged;
};

extern struct carrier carrier;

/* connect.c */
struct opening; /* control.h */
void connection_open(const struct opening *);
void connection_close(uint32_t number, const char *why);
void connections_serve(void);
void connections_held(uint64_t time);
void connection_fault(struct connection *, const char *why);
struct connection *connection_of(const unsigned char token[TOKEN]);
uint64_t random64(void);

/* untold reports whether the peer should get the new limit of what it may send. */
static inline bool untold(const struct connection *c) {
	return c->granted_packets - c->told_packets >= WINDOW_PACKETS / 4 ||
	       c->granted_bytes - c->told_bytes >= WINDOW_BYTES / 4;
}

/* say.c */
void say(struct connection *, uint32_t what);
const char *say_handler(void);
enum { SAY_ACCEPT = 1, SAY_BEAT = 2 };

/*
 * The prefix of the headers in each message. All numbers are big-endian. Without keys the message begins
 * at what follows bytes; with keys there are a count and a tag.
 */
struct prefix {
	unsigned char token[TOKEN];
	uint64_t packets, bytes; /* how much the peer may send */
	uint64_t count;
	unsigned char tag[TAG];
};
enum { PREFIX_PLAIN = 32, PREFIX_SEALED = 56 };
_Static_assert(sizeof(struct prefix) == PREFIX_SEALED && offsetof(struct prefix, count) == PREFIX_PLAIN,
               "prefix");

/* A body is a message without its prefix: headers, and data. */
struct body {
	unsigned char *head, *data;
	size_t head_length, data_length;
};

/* prefix_for writes the prefix of a message, and returns its length, or 0 if the message cannot be sent.
 * If the connection encrypts packets, a packet's body is encrypted: the head in its place, the data to
 * instead, which has room for it. */
size_t prefix_for(struct connection *, uint32_t id, struct prefix *, const struct body *,
                  unsigned char *instead);

/* prefix_from checks a message that has come. It returns the connection, or NULL if the message is of
 * no connection. body is the message's; what was encrypted is decrypted to memory of this function. */
struct connection *prefix_from(uint32_t id, const void *header, size_t header_length, void *data,
                               size_t length, struct body *);

/* packets.c */
const char *packets_start(void);
unsigned packets_send(void);
unsigned packets_receive(void);
void packets_forget(struct connection *);
void grant(struct connection *, uint64_t packets, uint64_t bytes);

enum { AM_SAY = 22, AM_PACKET = 23 };

#endif
