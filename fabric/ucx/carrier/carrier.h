/*
 * nicless-ucx moves packets between the rings of an engine and other engines, over UCX. The engine's
 * process starts it, shares memory with it, and decides everything; control.h says how they speak.
 * One thread does all of it.
 *
 *	library.c    finding libucp
 *	ring.c       rings of packets
 *	connect.c    listening, connecting, closing
 *	greet.c      what two carriers say to each other besides packets
 *	packets.c    packets: from the ring to peers, and from peers to the ring
 *	control.c    messages from and to the engine's process
 *	main.c       the loop: when it looks, sleeps and wakes
 */
#ifndef NICLESS_UCX_CARRIER_H
#define NICLESS_UCX_CARRIER_H

#include "abi.h"
#include "ring.h"

enum {
	CONNECTIONS = 64,
	PATHS = 256, /* slots of the table of paths; a path's slot is its number modulo this */
	GREETING = 12288, /* most bytes of a hello */

	/* What a peer may send before it hears that packets have left this process. */
	WINDOW_PACKETS = 256,
	WINDOW_BYTES = 4 << 20,
};

#define MILLISECOND ((uint64_t)1000000)
#define SECOND (1000 * MILLISECOND)

enum state { FREE, SHAKING, UP, CLOSING };

/* A connection with a peer: one endpoint of UCX. */
struct connection {
	enum state state;
	uint32_t number;   /* for the engine's process; a new one for each connection */
	uint32_t target;   /* of the engine's process, if this side connects; else 0 */
	uint32_t path;     /* path number of the peer; 0: not accepted yet */
	uint32_t agreed;   /* bit 0: this side has accepted the connection; bit 1: the peer has */
	uint64_t here;     /* token in messages from the peer; never used again */
	uint64_t there;    /* token in messages to the peer; 0: its hello has not come */
	void *ep;
	request closing;   /* of ucp_ep_close_nbx */
	const char *fault; /* it has to be closed, because of this; NULL: it has not */
	uint64_t linger;   /* it is closed after this time, so that the peer hears why */
	bool mute;         /* the endpoint has failed: nothing can be said any more */
	unsigned flying;   /* sends that are not complete */
	uint64_t since, heard, spoken; /* times: when it began; of the last message each way */
	uint64_t stuck;    /* since when a packet waits for credits; 0: none does */
	char remote[64];
	char bye[200];     /* why the peer has closed the connection, as it says */

	/* Credits, counted since the connection began. What this side has sent is at most what the
	 * peer has granted, and the other way round. */
	uint64_t sent_packets, sent_bytes, may_packets, may_bytes;
	uint64_t got_packets, got_bytes, granted_packets, granted_bytes, told_packets, told_bytes;
	uint64_t dropped;  /* packets for the peer that were dropped, because it takes none */
	uint64_t greeted;  /* carrier.greetings when the peer was greeted last */
	uint64_t reported; /* sent + got + dropped, when the engine's process was told last */
};

/* Words of the shared memory, and where the rings begin. Each is written by one side. */
enum {
	ASLEEP_AT = 0,        /* u32, this program: number of its sleep; 0: awake */
	ENGINE_ASLEEP_AT = 64, /* u32, the engine: number of its sleep; 0: awake */
	RINGS_AT = 4096,
};

struct carrier {
	struct connection connections[CONNECTIONS];
	struct connection *paths[PATHS];
	unsigned up;        /* connections whose state is UP */
	uint32_t numbers;   /* of connections, given so far */
	uint64_t now;       /* in nanoseconds */
	uint64_t deadline;  /* after so long a silence a peer is dead */
	bool attention;     /* a connection has a fault, or has to be told something */

	void *worker, *listener;
	int efd;
	unsigned char *memory;
	struct ring out, in; /* from the engine, to the engine */
	uint64_t out_done;   /* packets of out that are freed */
	struct op *ops;      /* one for each slot of out */
	struct held *held, **held_end; /* packets that the ring to the engine has no room for */
	bool put;            /* packets were put into the ring to the engine */
	uint32_t answered;   /* sleep of the engine that was ended */

	unsigned char greeting[GREETING];
	size_t greeting_length;
	uint64_t greetings; /* how often it has changed */
	uint64_t violations, strangers; /* messages that no nicless sends; messages of no connection */
};

extern struct carrier carrier;

/* connect.c */
const char *listen_at(const char *host, const char *port);
void connect_to(uint32_t target, const char *host, const char *port);
void connections_accept(void);
void connections_serve(void);
void connection_fault(struct connection *, const char *why);
struct connection *connection_of(uint64_t token);
struct connection *connection_numbered(uint32_t number);
uint64_t random64(void);

/* untold reports whether the peer should hear how much more it may send. */
static inline bool untold(const struct connection *c) {
	return c->granted_packets - c->told_packets >= WINDOW_PACKETS / 4 || c->granted_bytes - c->told_bytes >= WINDOW_BYTES / 4;
}

/* greet.c */
void greet(struct connection *);
void say(struct connection *, uint32_t what, const char *why);
void agree(struct connection *, uint32_t path);
void disagree(struct connection *, const char *why);
const char *greet_handlers(void);
enum { SAY_ACCEPT = 1, SAY_BEAT = 2, SAY_BYE = 3 };

/* packets.c */
const char *packets_start(void);
unsigned packets_send(void);
unsigned packets_receive(void);
void packets_forget(struct connection *);
void grant(struct connection *, uint64_t packets, uint64_t bytes);

/* What precedes the headers in each message: the peer's token, and how much the peer may send. */
struct prefix {
	uint64_t token, packets, bytes;
};
struct prefix prefix_for(struct connection *);
struct connection *prefix_from(const void *header, size_t length);

enum { AM_HELLO = 21, AM_SAY = 22, AM_PACKET = 23 };

#endif
