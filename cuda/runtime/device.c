/* The devices of a thread. */
#include "runtime.h"

API cudaError_t cudaGetDeviceCount(int *n) {
	if (!n)
		return note(INVALID_VALUE);
	*n = 0;
	if (ready())
		return note(NOT_INITIALIZED);
	*n = gpu_devices();
	return note(*n ? OK : NO_DEVICE);
}

API cudaError_t cudaSetDevice(int device) {
	if (ready())
		return note(NOT_INITIALIZED);
	if (device < 0 || device >= gpu_devices())
		return note(gpu_devices() ? INVALID_DEVICE : NO_DEVICE);
	gpu_set_current(device);
	return OK;
}

API cudaError_t cudaGetDevice(int *device) {
	if (ready())
		return note(NOT_INITIALIZED);
	if (!device)
		return note(INVALID_VALUE);
	*device = gpu_current();
	return note(gpu_devices() ? OK : NO_DEVICE);
}

API cudaError_t cudaDeviceSynchronize(void) { return DO(gpu_synchronize(current)); }
API cudaError_t cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
API cudaError_t cudaDeviceReset(void) { return DO(gpu_synchronize(current)); }
API cudaError_t cudaSetDeviceFlags(unsigned flags) { (void)flags; return DO(OK); }
API cudaError_t cudaGetDeviceFlags(unsigned *flags) { *flags = 8; /* cudaDeviceMapHost */ return DO(OK); }
API cudaError_t cudaDeviceSetCacheConfig(int config) { (void)config; return DO(OK); }
API cudaError_t cudaDeviceSetSharedMemConfig(int config) { (void)config; return DO(OK); }

API cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return DO(OK); }
API cudaError_t cudaRuntimeGetVersion(int *version) { *version = VERSION; return DO(OK); }

API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
	if (least)
		*least = 0;
	if (greatest)
		*greatest = 0;
	return DO(OK);
}

API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
	return DO(gpu_can_reach(device, peer, can));
}

API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
	return DO(flags ? INVALID_VALUE : gpu_peer(current, peer, 1));
}

API cudaError_t cudaDeviceDisablePeerAccess(int peer) { return DO(gpu_peer(current, peer, 0)); }
