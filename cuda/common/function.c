/* Attributes of kernels that a program sets, of which CUDA's runtime and driver have the same numbers. */
#include "common.h"

enum { DYNAMIC_SHARED = 8, CARVEOUT = 9, FIRST_OF_CLUSTERS = 10, LAST_OF_CLUSTERS = 14 };

int gpu_set_function_attribute(int device, void *stub, int number, int value) {
	struct gpu_attributes a;
	int error = gpu_function_attributes(device, stub, &a);
	if (error)
		return error;
	if (number == DYNAMIC_SHARED)
		return value < 0 ? INVALID_VALUE : gpu_function_allow(device, stub, (uint64_t)value);
	if (number == CARVEOUT) /* a hint, in percent; -1 is none */
		return value < -1 || value > 100 ? INVALID_VALUE : OK;
	return number < FIRST_OF_CLUSTERS || number > LAST_OF_CLUSTERS || value < 0 ? INVALID_VALUE : OK;
}
