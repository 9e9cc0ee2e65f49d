/* Memory of devices in other processes. */
#include "runtime.h"

enum { LAZY_PEER_ACCESS = 1 };

API cudaError_t cudaIpcGetMemHandle(struct gpu_shared *h, void *p) {
	return DO(h ? gpu_share(h, (uint64_t)(uintptr_t)p) : INVALID_VALUE);
}

API cudaError_t cudaIpcOpenMemHandle(void **p, struct gpu_shared h, unsigned flags) {
	uint64_t at = 0;
	int error;
	if (!p || flags != LAZY_PEER_ACCESS)
		return note(INVALID_VALUE);
	(void)current;
	error = DO(gpu_attach_shared(&at, &h));
	if (error == OK)
		*p = (void *)(uintptr_t)at;
	return error;
}

API cudaError_t cudaIpcCloseMemHandle(void *p) { return DO(gpu_detach_shared((uint64_t)(uintptr_t)p)); }
