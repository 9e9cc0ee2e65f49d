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

enum {
	/* from the engine's process */
	M_HELLO = 1,   /* body: what peers are told from now on */
	M_CONNECT = 2, /* number: of the target; body: host, 0, port, 0 */
	M_ACCEPT = 3,  /* number: of the connection; a: its path number */
	M_REFUSE = 4,  /* number: of the connection; body: why */
	M_END = 5,     /* say good-bye and exit */

	/* to the engine's process */
	M_READY = 16, /* a: version of UCX: major:32 | minor:16 | release:16; b: port that is listened on */
	M_FATAL = 17, /* body: why this process ends */
	M_MET = 18,   /* number: of the connection; a: target, or 0; b: length of the peer's address; body: that, and the peer's hello */
	M_UP = 19,    /* number: of the connection */
	M_GONE = 20,  /* number: of the connection, or 0; a: target, or 0; body: why */
	M_COUNTS = 21, /* number: of the connection; a: packets sent; b: received; c: dropped.
	                * Number 0, once a second: a: messages that no nicless sends; b: messages of no connection */
};

enum { MESSAGE_HEAD = 32, MESSAGE = MESSAGE_HEAD + 64 + 12288 }; /* with GREETING bytes of a hello */

/* tell sends a message. */
void tell(uint16_t type, uint32_t number, uint64_t a, uint64_t b, uint64_t c, const void *body, size_t length);

/* tell2 is tell with a body of two parts. */
void tell2(uint16_t type, uint32_t number, uint64_t a, uint64_t b, const void *first, size_t length, const void *second, size_t more);

/* hear takes and obeys all messages that have come. It returns false if this process has to end. */
bool hear(void);

/* fatal tells why, and ends the process. */
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { CONTROL_FD = 3, MEMORY_FD = 4, WAKE_FD = 5, BELL_FD = 6 };

#endif
