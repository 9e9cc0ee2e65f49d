/*
 * Shared by the runtime and the driver of a process: the device and the default stream of a thread, its end,
 * and whether CUDA has begun.
 */
#include "gpu.h"

#include <pthread.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static __thread int chosen; /* one more than the device; 0: none */
static __thread int own;    /* stream 0 is the thread's own */
static int begun;

API int gpu_current(void) { return chosen ? chosen - 1 : 0; }
API int gpu_chosen(void) { return chosen - 1; }
API void gpu_set_current(int device) { chosen = device + 1; }

API void gpu_begin(void) { __atomic_store_n(&begun, 1, __ATOMIC_RELAXED); }
API int gpu_begun(void) { return __atomic_load_n(&begun, __ATOMIC_RELAXED); }

API int gpu_own_stream(void) { return own; }
API void gpu_set_own_stream(int on) { own = on; }

static pthread_key_t ending;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* In a child of fork there are no threads of Go's, which would have to answer. */
static void end(void *process) {
	if ((pid_t)(intptr_t)process == getpid())
		gpu_thread_ends();
}

static void make_key(void) { pthread_key_create(&ending, end); }

void gpu_tell_end_of_thread(void) {
	pthread_once(&once, make_key);
	pthread_setspecific(ending, (void *)(intptr_t)getpid());
}
