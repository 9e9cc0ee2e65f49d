/*
 * For the tests in Go: sealing without UCX. Descriptor 0 and 1 carry records in host order.
 *
 *	seal CIPHER ENCRYPT    reads the two keys; then for each record: open:8 | 0:24 | id:32 | count:64 |
 *	                       lengths of plain, head and data:32 each | 0:32, the three, and tag:128.
 *	                       It writes ok:8, and head, data and tag as they are then.
 */
#include "../seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record {
	uint32_t open, id;
	uint64_t count;
	uint32_t length[3], zero;
};

int main(int argc, char **argv) {
	static unsigned char keys[2][KEY], bytes[3][65536], to[2][65536], tag[TAG];
	struct seal s;
	if (argc != 3 || fread(keys, sizeof keys, 1, stdin) != 1)
		return 1;
	const char *why = seal_begin(&s, (enum cipher)atoi(argv[1]), keys[0], keys[1], atoi(argv[2]));
	if (why) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	struct record r;
	while (fread(&r, sizeof r, 1, stdin) == 1) {
		struct part parts[3];
		for (int i = 0; i < 3; i++) {
			parts[i] = (struct part){bytes[i], r.length[i]};
			if (r.length[i] && fread(bytes[i], r.length[i], 1, stdin) != 1)
				return 1;
		}
		if (fread(tag, sizeof tag, 1, stdin) != 1)
			return 1;
		unsigned char *into[3] = {NULL, to[0], to[1]};
		unsigned plain = s.encrypts ? 1 : 3;
		unsigned char ok = r.open ? seal_open(&s, r.id, r.count, parts, plain, 3, into, tag)
		                          : seal_close(&s, r.id, r.count, parts, plain, 3, into, tag);
		fwrite(&ok, 1, 1, stdout);
		for (int i = 0; i < 2; i++)
			fwrite(plain == 3 ? bytes[i + 1] : to[i], r.length[i + 1], 1, stdout);
		fwrite(tag, sizeof tag, 1, stdout);
		fflush(stdout);
	}
	seal_end(&s);
	return 0;
}
