#include "seal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The functions of libcrypto: return type, name, arguments. */
#define CRYPTO_FUNCTIONS(F) \
	F(void *, EVP_CIPHER_CTX_new, (void)) \
	F(void, EVP_CIPHER_CTX_free, (void *)) \
	F(int, EVP_CIPHER_CTX_ctrl, (void *, int, int, void *)) \
	F(const void *, EVP_aes_256_gcm, (void)) \
	F(const void *, EVP_chacha20_poly1305, (void)) \
	F(int, EVP_CipherInit_ex, \
	  (void *, const void *, void *, const unsigned char *, const unsigned char *, int)) \
	F(int, EVP_CipherUpdate, (void *, unsigned char *, int *, const unsigned char *, int)) \
	F(int, EVP_CipherFinal_ex, (void *, unsigned char *, int *))

static struct {
#define F(result, name, args) result(*name) args;
	CRYPTO_FUNCTIONS(F)
#undef F
} crypto;

enum { SET_IV_LENGTH = 9, GET_TAG = 16, SET_TAG = 17, NONCE = 12 }; /* EVP_CTRL_AEAD_* */

const char *seal_library(void) {
	static char why[300];
	static bool found;
	if (found)
		return NULL;
	void *lib = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(why, sizeof why,
		         "a link with keys needs OpenSSL 3: %s (Debian and Ubuntu: apt install libssl3)", dlerror());
		return why;
	}
	const char *missing = NULL;
#define F(result, function, args) \
	if (!(*(void **)&crypto.function = dlsym(lib, #function)) && !missing) \
		missing = #function;
	CRYPTO_FUNCTIONS(F)
#undef F
	if (missing) {
		snprintf(why, sizeof why, "libcrypto.so.3 has no function %s", missing);
		return why;
	}
	found = true;
	return NULL;
}

static void *cipher_with(enum cipher cipher, const unsigned char key[KEY], int encrypt) {
	const void *type =
		cipher == CIPHER_AES_256_GCM ? crypto.EVP_aes_256_gcm() : crypto.EVP_chacha20_poly1305();
	void *c = crypto.EVP_CIPHER_CTX_new();
	if (c && crypto.EVP_CipherInit_ex(c, type, NULL, NULL, NULL, encrypt) == 1 &&
	    crypto.EVP_CIPHER_CTX_ctrl(c, SET_IV_LENGTH, NONCE, NULL) == 1 &&
	    crypto.EVP_CipherInit_ex(c, NULL, NULL, key, NULL, encrypt) == 1)
		return c;
	if (c)
		crypto.EVP_CIPHER_CTX_free(c);
	return NULL;
}

const char *seal_begin(struct seal *s, enum cipher cipher, const unsigned char out[KEY],
                       const unsigned char in[KEY], bool encrypts) {
	memset(s, 0, sizeof *s);
	if (cipher == CIPHER_NONE)
		return NULL;
	const char *why = seal_library();
	if (why)
		return why;
	s->encrypts = encrypts;
	s->out = cipher_with(cipher, out, 1);
	s->in = cipher_with(cipher, in, 0);
	if (s->out && s->in)
		return NULL;
	seal_end(s);
	return "libcrypto.so.3 does not have the cipher of this connection";
}

void seal_end(struct seal *s) {
	if (s->out)
		crypto.EVP_CIPHER_CTX_free(s->out);
	if (s->in)
		crypto.EVP_CIPHER_CTX_free(s->in);
	memset(s, 0, sizeof *s);
}

uint64_t seal_next(struct seal *s) { return s->sealed < MOST_SEALED ? ++s->sealed : 0; }

/* run passes a message through a cipher, without its end. */
static bool run(void *c, uint32_t id, uint64_t count, const struct part *parts, unsigned plain, unsigned all,
                unsigned char *const to[]) {
	unsigned char nonce[NONCE];
	uint32_t first = __builtin_bswap32(id);
	uint64_t second = __builtin_bswap64(count);
	int n;
	memcpy(nonce, &first, 4);
	memcpy(nonce + 4, &second, 8);
	if (crypto.EVP_CipherInit_ex(c, NULL, NULL, NULL, nonce, -1) != 1)
		return false;
	for (unsigned i = 0; i < all; i++)
		if (parts[i].length && crypto.EVP_CipherUpdate(c, i < plain ? NULL : to[i], &n, parts[i].bytes,
		                                               (int)parts[i].length) != 1)
			return false;
	return true;
}

bool seal_close(struct seal *s, uint32_t id, uint64_t count, const struct part *parts, unsigned plain,
                unsigned all, unsigned char *const to[], unsigned char tag[TAG]) {
	int n;
	unsigned char none[16];
	return run(s->out, id, count, parts, plain, all, to) &&
	       crypto.EVP_CipherFinal_ex(s->out, none, &n) == 1 &&
	       crypto.EVP_CIPHER_CTX_ctrl(s->out, GET_TAG, TAG, tag) == 1;
}

enum { WORDS = REPLAY / 64 + 1 };

/* fresh reports whether a count has not come yet, and is not too old to know. */
static bool fresh(const struct seal *s, uint64_t count) {
	if (count == 0 || count > MOST_SEALED || count + REPLAY <= s->newest)
		return false;
	return count > s->newest || !(s->seen[count / 64 % WORDS] >> count % 64 & 1);
}

/* note notes that a count has come. */
static void note(struct seal *s, uint64_t count) {
	if (count > s->newest) {
		uint64_t from = s->newest / 64 + 1, to = count / 64;
		if (from + WORDS <= to)
			from = to - WORDS + 1;
		for (uint64_t word = from; word <= to; word++)
			s->seen[word % WORDS] = 0;
		s->newest = count;
	}
	s->seen[count / 64 % WORDS] |= (uint64_t)1 << count % 64;
}

bool seal_open(struct seal *s, uint32_t id, uint64_t count, const struct part *parts, unsigned plain,
               unsigned all, unsigned char *const to[], const unsigned char tag[TAG]) {
	int n;
	unsigned char copy[TAG], none[16];
	memcpy(copy, tag, TAG);
	if (!fresh(s, count) || !run(s->in, id, count, parts, plain, all, to) ||
	    crypto.EVP_CIPHER_CTX_ctrl(s->in, SET_TAG, TAG, copy) != 1 ||
	    crypto.EVP_CipherFinal_ex(s->in, none, &n) != 1)
		return false;
	note(s, count);
	return true;
}
