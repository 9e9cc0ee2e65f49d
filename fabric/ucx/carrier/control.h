/*
 * The socket to the engine's process: SOCK_SEQPACKET, one message each time. A message has a head
 * of 32 bytes, big-endian, and perhaps a body:
 *
 *	0   type:16 | 0:16
 *	4   number:32
 *	8   a:64
 *	16  b:64
 *	24  c:64
 *	32  body
 *
 * fabric/ucx/message.go has the same list.
 */
#ifndef NICLESS_UCX_CONTROL_H
#define NICLESS_UCX_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate.h"
#include "seal.h"

enum {
	/* from the engine's process */
	M_OPEN = 1,   /* number: of a new connection; a: its path number; body: see parse in control.c */
	M_CLOSE = 2,  /* number: of the connection; body: why */
	M_SOCKET = 3, /* body: name of a door; with a descriptor: a connection for libucx */
	M_END = 5,    /* exit */

	/* to the engine's process */
	/* a: version of UCX: major:32 | minor:16 | release:16; b: number of doors; body: their names, and the
	 * worker address */
	M_READY = 16,
	M_FATAL = 17, /* body: why this process ends */
	M_TRY = 18,   /* number: of the connection whose worker address libucp is given now; 0: it has taken it */
	M_UP = 19,    /* number: of the connection */
	M_GONE = 20,  /* number: of the connection; body: why */
	M_COUNTS = 21, /* number: of the connection; a: packets sent; b: received; c: dropped.
	                * Number 0, once a second: a: messages that no nicless sends; b: of no connection;
	                * c: with a wrong tag, or that came before */
};

enum { MESSAGE_HEAD = 32, MESSAGE = MESSAGE_HEAD + 20480 }; /* with room for a worker address */

/* An opening is what M_OPEN says. */
struct opening {
	uint32_t number, path;
	bool active, encrypts;
	enum cipher cipher;
	unsigned char here[16], there[16], key_out[KEY], key_in[KEY];
	const unsigned char *worker_address;
	size_t worker_address_length;
	struct route route;
};

/* tell sends a message. */
void tell(uint16_t type, uint32_t number, uint64_t a, uint64_t b, uint64_t c, const void *body,
          size_t length);

/* hear receives and obeys all messages that have come. It returns false if this process has to end. */
bool hear(void);

/* fatal reports why, and ends the process. */
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { CONTROL_FD = 3, MEMORY_FD = 4, WAKE_FD = 5, BELL_FD = 6 };

#endif
