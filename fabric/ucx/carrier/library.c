/* Finding libucp at run time, and setting its environment before. */
#define _GNU_SOURCE
#include "abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct ucp ucp;

/* UCX installs no signal handlers and hooks no memory functions; shared memory is used although errors of
 * peers are handled. */
static const char *const environment[][2] = {
	{"UCX_HANDLE_ERRORS", "none"}, {"UCX_ERROR_SIGNALS", ""}, {"UCX_DEBUG_SIGNO", "0"},
	{"UCX_MEM_EVENTS", "n"},
	{"UCX_VFS_ENABLE", "n"}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}, {"UCX_LOG_LEVEL", "error"},
	{"UCX_POSIX_ERROR_HANDLING", "y"}, {"UCX_SYSV_ERROR_HANDLING", "y"},
	/* How much is received from TCP at once: eight of the longest packets of the default MTU (32 KiB, and
	 * at most 200 bytes of prefixes and headers). UCX's own 64 KiB are 109 bytes less than two of them. So
	 * almost all of each second one was received and moved to the beginning of the buffer, and the rest
	 * was received by another call. */
	{"UCX_TCP_RX_SEG_SIZE", "263744"},
};

enum { OLDEST_MAJOR = 1, OLDEST_MINOR = 13 };

static char why[600];

const char *library_load(const char *path) {
	for (size_t i = 0; i < sizeof environment / sizeof *environment; i++)
		setenv(environment[i][0], environment[i][1], 0);
	const char *name = *path ? path : "libucp.so.0";
	void *lib = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	if (!lib) {
		snprintf(why, sizeof why, "UCX cannot be loaded: %s (Debian and Ubuntu: apt install libucx0)",
		         dlerror());
		return why;
	}
	const char *missing = NULL;
#define F(result, function, args) \
	if (!(*(void **)&ucp.function = dlsym(lib, #function)) && !missing) \
		missing = #function;
	UCP_FUNCTIONS(F)
#undef F
	if (ucp.ucp_get_version)
		ucp.ucp_get_version(&ucp.version[0], &ucp.version[1], &ucp.version[2]);
	unsigned major = ucp.version[0], minor = ucp.version[1];
	if (ucp.ucp_get_version && (major != OLDEST_MAJOR || minor < OLDEST_MINOR)) {
		snprintf(why, sizeof why, "%s is UCX %u.%u.%u; 1.%d or a later 1.x is needed", name, major, minor,
		         ucp.version[2], OLDEST_MINOR);
		return why;
	}
	if (missing) {
		snprintf(why, sizeof why, "%s has no function %s; UCX 1.%d or a later 1.x is needed", name, missing,
		         OLDEST_MINOR);
		return why;
	}
	return NULL;
}
