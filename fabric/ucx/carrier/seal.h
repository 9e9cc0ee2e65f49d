/*
 * Sealing: with keys, each message to a peer has a tag of 16 bytes over all of it, and a count that is
 * never used twice. libcrypto (OpenSSL 3) does it; it is found when the first key comes.
 */
#ifndef NICLESS_UCX_SEAL_H
#define NICLESS_UCX_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cipher { CIPHER_NONE, CIPHER_AES_256_GCM, CIPHER_CHACHA20_POLY1305 };

enum {
	KEY = 32,
	TAG = 16,
	REPLAY = 8192, /* a message that comes so many behind the newest is dropped */
};

/* No key seals more messages. The engines make new keys long before. */
#define MOST_SEALED ((uint64_t)1 << 32)

/* A seal has the keys of one connection. */
struct seal {
	void *out, *in;  /* EVP_CIPHER_CTX; NULL: messages are not sealed */
	bool encrypts;   /* packets are encrypted too */
	uint64_t sealed; /* messages so far; the count of the last one */
	uint64_t newest; /* highest count that has come; 0: none */
	/* Bits of counts; one word more than the window, which begins anywhere in a word. */
	uint64_t seen[REPLAY / 64 + 1];
};

/* A part of a message. Parts that are encrypted come after those that are not. */
struct part {
	unsigned char *bytes;
	size_t length;
};

/* seal_library finds libcrypto. It returns NULL, or a sentence that says why it cannot be used. */
const char *seal_library(void);

/* seal_begin sets keys. It returns NULL, or why this is not possible. */
const char *seal_begin(struct seal *, enum cipher, const unsigned char out[KEY], const unsigned char in[KEY],
                       bool encrypts);
void seal_end(struct seal *);

/* seal_next returns the count of the next message, 0 if the key is used up. */
uint64_t seal_next(struct seal *);

/*
 * seal_close computes the tag of a message with this count: over id and the parts from 0 to plain, which
 * are not changed, and over the others, which are encrypted from bytes to to[part]. It returns false if
 * libcrypto fails.
 */
bool seal_close(struct seal *, uint32_t id, uint64_t count, const struct part *parts, unsigned plain,
                unsigned all, unsigned char *const to[], unsigned char tag[TAG]);

/* seal_open is the reverse: it decrypts, and returns whether the tag is right and the message is new. If it
 * returns false, what was decrypted must not be used. */
bool seal_open(struct seal *, uint32_t id, uint64_t count, const struct part *parts, unsigned plain,
               unsigned all, unsigned char *const to[], const unsigned char tag[TAG]);

#endif
