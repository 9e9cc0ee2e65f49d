/* How many blocks of a kernel are resident. */
#include "common.h"

/* A multiprocessor keeps a KiB of shared memory for each block, and gives it out in pieces of 128 bytes. */
enum { RESERVED = 1024, PIECE = 128 };

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
	if (a.shared > g.shared_opt_in || shared > g.shared_opt_in - a.shared) {
		*n = 0;
		return OK;
	}
	shared = (shared + a.shared + PIECE - 1) / PIECE * PIECE + RESERVED;
	if ((uint64_t)*n > g.shared_of_sm / shared)
		*n = (int)(g.shared_of_sm / shared);
	return OK;
}
