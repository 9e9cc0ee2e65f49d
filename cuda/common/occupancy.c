/* How many blocks of a kernel are resident. */
#include "common.h"

int gpu_occupancy(int *n, int device, void *stub, int block, uint64_t shared) {
	struct gpu_properties g = {0};
	struct gpu_attributes a = {0};
	int error = gpu_properties(device, &g);
	if (error || (error = gpu_function_attributes(device, stub, &a)))
		return error;
	if (block < 1)
		return INVALID_VALUE;
	*n = block > a.threads ? 0 : g.threads_of_sm / ((block + 31) / 32 * 32);
	if (*n > g.blocks_of_sm)
		*n = g.blocks_of_sm;
	shared += a.shared;
	if (shared > 0 && (uint64_t)*n > g.shared_of_sm / shared)
		*n = (int)(g.shared_of_sm / shared);
	return OK;
}
