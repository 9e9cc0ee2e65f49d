/* Modules, libraries, kernels and launches. A library is a module of no context, and so is each here. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

static int load_file(CUmodule *module, const char *path) {
	FILE *f = fopen(path, "rb");
	char *image = NULL;
	size_t size = 0, room = 0, n;
	int error;
	if (!f)
		return 301; /* CUDA_ERROR_FILE_NOT_FOUND */
	do {
		if (room - size < 1 << 16) {
			char *more = realloc(image, room += 1 << 20);
			if (!more) {
				free(image);
				fclose(f);
				return 2;
			}
			image = more;
		}
		n = fread(image + size, 1, room - size - 1, f);
		size += n;
	} while (n > 0);
	fclose(f);
	image[size] = 0;
	error = gpu_module_load(HERE, image, module);
	if (error)
		free(image); /* a fat binary stays where it is while the module lives */
	return error;
}

static int unload(CUmodule module) {
	gpu_module_unload(module);
	return OK;
}

API CUresult cuModuleLoad(CUmodule *module, const char *path) { return BOUND(load_file(module, path)); }
API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
	return BOUND(gpu_module_load(HERE, (void *)image, module));
}
API CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
	return cuModuleLoadData(module, image);
}

API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, int *options,
                                void **values) {
	(void)n; (void)options; (void)values;
	return cuModuleLoadData(module, image);
}

API CUresult cuModuleUnload(CUmodule module) { return BOUND(unload(module)); }

API CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name) {
	return BOUND(gpu_module_function(HERE, module, (char *)name, f));
}

static int global(CUdeviceptr *at, size_t *size, CUmodule module, const char *name) {
	void *p = NULL;
	uint64_t n = 0;
	int error = gpu_module_global(HERE, module, (char *)name, &p, &n);
	if (error)
		return error;
	if (at)
		*at = to_address(p);
	if (size)
		*size = n;
	return OK;
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *size, CUmodule module, const char *name) {
	return BOUND(global(at, size, module, name));
}

/* Everything is loaded when its module is. */
API CUresult cuModuleGetLoadingMode(int *mode) { *mode = 1; return STARTED(OK); }

API CUresult cuLibraryLoadData(CUmodule *library, const void *image, int *options, void **values, unsigned n,
                               int *library_options, void **library_values, unsigned library_n) {
	(void)options; (void)values; (void)n; (void)library_options; (void)library_values; (void)library_n;
	return STARTED(gpu_module_load(HERE, (void *)image, library));
}

API CUresult cuLibraryLoadFromFile(CUmodule *library, const char *path, int *options, void **values,
                                   unsigned n,
                                   int *library_options, void **library_values, unsigned library_n) {
	(void)options; (void)values; (void)n; (void)library_options; (void)library_values; (void)library_n;
	return STARTED(load_file(library, path));
}

static int same(uint64_t *to, uint64_t from) {
	*to = from;
	return OK;
}

API CUresult cuLibraryUnload(CUmodule library) { return STARTED(unload(library)); }
API CUresult cuLibraryGetModule(CUmodule *module, CUmodule library) { return BOUND(same(module, library)); }
API CUresult cuLibraryGetKernel(CUfunction *kernel, CUmodule library, const char *name) {
	return STARTED(gpu_module_function(HERE, library, (char *)name, kernel));
}
API CUresult cuLibraryGetGlobal(CUdeviceptr *at, size_t *size, CUmodule library, const char *name) {
	return BOUND(global(at, size, library, name));
}
API CUresult cuLibraryGetManaged(CUdeviceptr *at, size_t *size, CUmodule library, const char *name) {
	return STARTED(global(at, size, library, name));
}
API CUresult cuKernelGetFunction(CUfunction *f, CUfunction kernel) { return BOUND(same(f, kernel)); }

/* The numbers are those of enum CUfunction_attribute. */
static int attribute(int *value, int number, CUfunction f) {
	struct gpu_attributes a = {0};
	int error = gpu_function_attributes(HERE, to_pointer(f), &a);
	if (error)
		return error == 98 ? INVALID_HANDLE : error;
	switch (number) {
	case 0: *value = a.threads; break;
	case 1: *value = (int)a.shared; break;
	case 3: *value = (int)a.local; break;
	case 4: *value = 32; break;          /* registers */
	case 5: case 6: *value = 90; break;  /* version of PTX and of the code */
	case 8: *value = (int)a.dynamic; break;
	default: *value = 0;
	}
	return OK;
}

API CUresult cuFuncGetAttribute(int *value, int number, CUfunction f) {
	return BOUND(attribute(value, number, f));
}

API CUresult cuKernelGetAttribute(int *value, int number, CUfunction f, CUdevice device) {
	(void)device;
	return STARTED(attribute(value, number, f));
}

static int set_attribute(CUdevice device, CUfunction f, int number, int value) {
	int error = gpu_set_function_attribute(device, to_pointer(f), number, value);
	return error == 98 ? INVALID_HANDLE : error;
}

API CUresult cuFuncSetAttribute(CUfunction f, int number, int value) {
	return BOUND(set_attribute(HERE, f, number, value));
}

API CUresult cuKernelSetAttribute(int number, int value, CUfunction f, CUdevice device) {
	return STARTED(set_attribute(device, f, number, value));
}

API CUresult cuFuncSetCacheConfig(CUfunction f, int config) { (void)f; (void)config; return BOUND(OK); }
API CUresult cuFuncSetSharedMemConfig(CUfunction f, int config) { (void)f; (void)config; return BOUND(OK); }

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, CUfunction f, int block,
                                                                  size_t shared, unsigned flags) {
	(void)flags;
	return BOUND(gpu_occupancy(n, HERE, to_pointer(f), block, shared));
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int block, size_t shared) {
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, block, shared, 0);
}

/* extra: CU_LAUNCH_PARAM_BUFFER_POINTER 1, ..._SIZE 2, ..._END 0. */
static int launch(CUfunction f, const unsigned *grid, const unsigned *block, unsigned shared, CUstream stream,
                  void **args, void **extra, int cooperative) {
	struct gpu_launch l = {{grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, args, NULL, 0,
	                       cooperative};
	int error;
	if (args && extra)
		return INVALID_VALUE;
	for (; extra && extra[0]; extra += 2) {
		if (to_address(extra[0]) == 1)
			l.packed = extra[1];
		else if (to_address(extra[0]) == 2)
			l.packed_size = *(size_t *)extra[1];
		else
			return INVALID_VALUE;
	}
	if (l.packed_size && !l.packed)
		return INVALID_VALUE;
	error = gpu_launch(HERE, stream, to_pointer(f), &l);
	return error == 98 ? INVALID_HANDLE : error == 9 ? INVALID_VALUE : error;
}

API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared, CUstream stream, void **args, void **extra) {
	unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
	return BOUND(launch(f, grid, block, shared, stream, args, extra, 0));
}

API CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                       unsigned by,
                                       unsigned bz, unsigned shared, CUstream stream, void **args) {
	unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
	return BOUND(launch(f, grid, block, shared, stream, args, NULL, 1));
}

/* struct CUlaunchConfig. Of the attributes only cooperative launches (2) change something here. */
struct config {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	struct { int id; char pad[4]; int value; char rest[60]; } *attributes;
	unsigned n;
};

API CUresult cuLaunchKernelEx(const struct config *c, CUfunction f, void **args, void **extra) {
	int cooperative = 0;
	for (unsigned k = 0; k < c->n; k++)
		if (c->attributes[k].id == 2)
			cooperative = c->attributes[k].value != 0;
	return BOUND(launch(f, c->grid, c->block, c->shared, c->stream, args, extra, cooperative));
}

API CUresult cuLaunchHostFunc(CUstream stream, void (*f)(void *), void *with) {
	return BOUND(gpu_call(HERE, stream, (void *)f, with));
}

API CUresult cuStreamAddCallback(CUstream s, void (*f)(CUstream, int, void *), void *with, unsigned flags) {
	return BOUND(gpu_add_callback(HERE, s, f, with, flags));
}
