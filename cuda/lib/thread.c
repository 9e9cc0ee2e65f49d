/* The device of a thread. */
#include "gpu.h"

#define API __attribute__((visibility("default")))

static __thread int chosen; /* one more than the device; 0: none */

API int gpu_current(void) { return chosen ? chosen - 1 : 0; }
API int gpu_chosen(void) { return chosen - 1; }
API void gpu_set_current(int device) { chosen = device + 1; }
