/* The beginning, errors and devices. */
#include "driver.h"

#include <stdio.h>
#include <string.h>

int started(void) { return gpu_begun() && gpu_ready() == OK ? OK : NOT_INITIALIZED; }

API CUresult cuInit(unsigned flags) {
	if (flags)
		return INVALID_VALUE;
	if (gpu_ready())
		return NOT_INITIALIZED;
	gpu_begin();
	return gpu_devices() ? OK : NO_DEVICE;
}

API CUresult cuDriverGetVersion(int *version) {
	if (!version)
		return INVALID_VALUE;
	*version = 13000;
	return OK;
}

API CUresult cuGetErrorString(CUresult error, const char **text) {
	*text = gpu_text(error);
	return OK;
}

/* The driver's names are not the runtime's. */
API CUresult cuGetErrorName(CUresult error, const char **name) {
	static const struct {
		int error;
		const char *name;
	} names[] = {
		{OK, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
		{NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"}, {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
		{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {200, "CUDA_ERROR_INVALID_IMAGE"},
		{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {208, "CUDA_ERROR_ALREADY_MAPPED"},
		{209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {218, "CUDA_ERROR_INVALID_PTX"},
		{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
		{NOT_READY, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
		{PEER_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
		{PEER_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"},
		{710, "CUDA_ERROR_ASSERT"}, {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
		{713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"}, {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
		{719, "CUDA_ERROR_LAUNCH_FAILED"}, {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
		{NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"}, {999, "CUDA_ERROR_UNKNOWN"},
	};
	for (size_t k = 0; k < sizeof names / sizeof *names; k++)
		if (names[k].error == error) {
			*name = names[k].name;
			return OK;
		}
	*name = NULL;
	return INVALID_VALUE;
}

static int get(CUdevice *device, int number) {
	if (number < 0 || number >= gpu_devices())
		return INVALID_DEVICE;
	*device = number;
	return OK;
}

static int count(int *n) {
	*n = gpu_devices();
	return OK;
}

API CUresult cuDeviceGetCount(int *n) { return STARTED(count(n)); }
API CUresult cuDeviceGet(CUdevice *device, int number) { return STARTED(get(device, number)); }
API CUresult cuDeviceGetAttribute(int *value, int number, CUdevice device) {
	return STARTED(gpu_attribute(value, number, device));
}

static int describe(CUdevice device, struct gpu_properties *g) {
	memset(g, 0, sizeof *g);
	return STARTED(gpu_properties(device, g));
}

API CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
	struct gpu_properties g;
	int error = describe(device, &g);
	if (!error)
		snprintf(name, (size_t)size, "%s", g.name);
	return error;
}

API CUresult cuDeviceGetUuid(uint8_t *uuid, CUdevice device) {
	struct gpu_properties g;
	int error = describe(device, &g);
	if (!error)
		memcpy(uuid, g.uuid, sizeof g.uuid);
	return error;
}

API CUresult cuDeviceGetUuid_v2(uint8_t *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
	struct gpu_properties g;
	int error = describe(device, &g);
	*bytes = g.total;
	return error;
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
	struct gpu_properties g;
	int error = describe(device, &g);
	*major = g.major;
	*minor = g.minor;
	return error;
}

API CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device) {
	struct gpu_properties g;
	int error = describe(device, &g);
	if (error)
		return error;
	return snprintf(text, (size_t)size, "%04x:%02x:%02x.0", g.domain, g.bus,
	                g.device) < size ? OK : INVALID_VALUE;
}

API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
	unsigned domain = 0, bus, number;
	if (sscanf(text, "%x:%x:%x", &domain, &bus, &number) != 3) {
		domain = 0;
		if (sscanf(text, "%x:%x", &bus, &number) != 2)
			return INVALID_VALUE;
	}
	return STARTED(gpu_device_of_bus((int)domain, (int)bus, (int)number, device));
}

API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
	return STARTED(gpu_can_reach(device, peer, can));
}

/* 1 performance rank, 2 access, 3 native atomics, 4 access of arrays. */
API CUresult cuDeviceGetP2PAttribute(int *value, int number, CUdevice device, CUdevice peer) {
	*value = number == 2 || number == 3;
	return STARTED(device == peer ? INVALID_DEVICE : OK);
}
