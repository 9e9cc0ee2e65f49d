/* Fat binaries, functions and variables: compilers call these before main. */
#include "runtime.h"

#include <stdlib.h>

API void **__cudaRegisterFatBinary(void *wrapper) {
	uint64_t *handle = malloc(sizeof *handle);
	gpu_ready();
	*handle = gpu_register(wrapper);
	return (void **)handle;
}

API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

API void __cudaUnregisterFatBinary(void **handle) {
	if (gpu_ready() == OK)
		gpu_unregister(*(uint64_t *)handle);
	free(handle);
}

API void __cudaRegisterFunction(void **handle, void *stub, char *device_stub, char *name, int limit,
                                void *tid, void *bid, void *block, void *grid, int *warp) {
	(void)device_stub; (void)limit; (void)tid; (void)bid; (void)block; (void)grid; (void)warp;
	gpu_function(*(uint64_t *)handle, own(stub), name);
}

API void __cudaRegisterVar(void **handle, void *shadow, char *address, char *name, int external, size_t size,
                           int constant, int global) {
	(void)address; (void)external; (void)constant; (void)global;
	gpu_variable(*(uint64_t *)handle, own(shadow), name, size);
}

API void __cudaRegisterManagedVar(void **handle, void **shadow, char *address, char *name, int external,
                                  size_t size, int constant, int global) {
	__cudaRegisterVar(handle, shadow, address, name, external, size, constant, global);
}

API char __cudaInitModule(void **handle) { (void)handle; return 1; }
