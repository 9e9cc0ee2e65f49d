/* Whether the library works in this process. */
#include "common.h"

#include <pthread.h>
#include <unistd.h>

static pid_t opened; /* the process in which it works */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_once(void) {
	opened = getpid();
	gpu_open();
}

int gpu_ready(void) {
	pthread_once(&once, open_once);
	return opened == getpid() ? OK : NOT_INITIALIZED;
}
