/* The state of threads, and the errors of their calls. */
#include "runtime.h"

__thread int last;

cudaError_t note(int error) {
	if (error != OK && error != NOT_READY)
		last = error;
	return error;
}

int ready(void) {
	if (gpu_ready())
		return NOT_INITIALIZED;
	gpu_begin();
	return OK;
}

int device_of_thread(void) {
	if (gpu_chosen() < 0)
		gpu_set_current(0);
	return gpu_current();
}

API cudaError_t cudaGetLastError(void) {
	int error = last;
	last = OK;
	if (error == OK && gpu_ready() == OK && gpu_devices() > 0)
		error = gpu_broken(gpu_current());
	return error;
}

API cudaError_t cudaPeekAtLastError(void) {
	return last ? last : gpu_ready() == OK && gpu_devices() > 0 ? gpu_broken(gpu_current()) : OK;
}

API char *cudaGetErrorString(cudaError_t error) { return gpu_text(error); }
API char *cudaGetErrorName(cudaError_t error) { return gpu_name(error); }
