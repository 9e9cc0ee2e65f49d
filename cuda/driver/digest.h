/* MD2 (RFC 1319), and HMAC (RFC 2104) with it. Both protect nothing today: CUDA's runtime asks for them. */
#ifndef NICLESS_CUDA_DIGEST_H
#define NICLESS_CUDA_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { DIGEST = 16 }; /* bytes of a digest, of a block and of a key */

struct digest {
	uint8_t state[DIGEST], sum[DIGEST], block[DIGEST];
	size_t filled; /* bytes of block, less than DIGEST */
};

/* Begins with a zeroed struct; adds n bytes; ends, after which the struct is spent. */
void digest_add(struct digest *d, const void *bytes, size_t n);
void digest_end(struct digest *d, uint8_t out[DIGEST]);

/* Stores the HMAC of n bytes. */
void digest_hmac(const uint8_t key[DIGEST], const void *bytes, size_t n, uint8_t out[DIGEST]);

#endif
