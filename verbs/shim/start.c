/* The environment of the program:
 *
 *   NICLESS_VERBS       the directory that a server has made; without it this library does
 *                       nothing
 *   NICLESS_VERBS_SLOW  1: memory that is registered stays where it is; otherwise its pages are
 *                       remapped into shared memory
 *   NICLESS_VERBS_DEVX  1: the program may have firmware commands (DEVX), 0: it may not;
 *                       otherwise the server decides
 *   NICLESS_VERBS_GUARD 1: send queues are guarded, because their posters store WQE, record and
 *                       register in any order, 0: they are not; otherwise the server decides */
#include "shim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "real.h"

/* A path in the directory has to fit into struct nv_place. */
enum { LONGEST = NV_PATH / 2 };

enum { UNKNOWN, OFF, ON };

static int state;
static char dir[LONGEST];

/* May run in several threads at once, and before the constructor. All threads get the same
 * result. */
const char *nv_dir(void) {
	static int said;
	int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
	if (now == UNKNOWN) {
		const char *value = secure_getenv("NICLESS_VERBS");
		size_t length = value ? strlen(value) : 0;
		now = OFF;
		if (length >= LONGEST || (length > 0 && value[0] != '/')) {
			nv_say(&said, "NICLESS_VERBS is not an absolute path of less than %d bytes: ignored", LONGEST);
		} else if (length > 0) {
			memcpy(dir, value, length + 1);
			now = ON;
		}
		__atomic_store_n(&state, now, __ATOMIC_RELEASE);
	}
	return now == ON ? dir : NULL;
}

static bool set_to(const char *name, const char *wanted) {
	const char *value = secure_getenv(name);
	return value && strcmp(value, wanted) == 0;
}

uint32_t nv_wants(void) {
	return (set_to("NICLESS_VERBS_SLOW", "1") ? 0 : NV_WANT_FAST) |
	       (set_to("NICLESS_VERBS_DEVX", "1") ? NV_WANT_DEVX : 0) |
	       (set_to("NICLESS_VERBS_DEVX", "0") ? NV_NO_DEVX : 0) |
	       (set_to("NICLESS_VERBS_GUARD", "1") ? NV_WANT_GUARD : 0) |
	       (set_to("NICLESS_VERBS_GUARD", "0") ? NV_NO_GUARD : 0);
}

/* These variables make libmlx5 get the memory of its rings by an mmap of the device. If the
 * mmap fails, libmlx5 uses memory of its own. A value that the user has set is not changed. */
__attribute__((__constructor__)) static void start(void) {
	static const char *const rings[] = {"MLX_QP_ALLOC_TYPE", "MLX_CQ_ALLOC_TYPE", "MLX_SRQ_ALLOC_TYPE",
	                                    "MLX_RWQ_ALLOC_TYPE"};
	size_t i;
	if (!nv_dir())
		return;
	for (i = 0; i < sizeof rings / sizeof *rings; i++)
		setenv(rings[i], "PREFER_CONTIG", 0);
}

void nv_say(int *once, const char *format, ...) {
	char line[512];
	int error = errno, n;
	va_list args;
	if (__atomic_exchange_n(once, 1, __ATOMIC_RELAXED))
		return;
	va_start(args, format);
	n = snprintf(line, sizeof line, "nicless: ");
	n += vsnprintf(line + n, sizeof line - (size_t)n, format, args);
	va_end(args);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n] = '\n';
	if (NV_REAL(write)(STDERR_FILENO, line, (size_t)n + 1) < 0)
		n = 0; /* there is nowhere to report an error */
	errno = error;
}
