/*
 * The library that watches GPUs (NVML), as far as NVSHMEM and NCCL ask it for topology: which devices
 * there are, and that they have neither NVLink nor a switch. The functions, types and numbers are those of
 * nvml.h, declared here again because that header is not free. Any thread may call any function.
 */
#include "../common/common.h"

#include <stdio.h>
#include <string.h>

typedef int nvmlReturn_t;

/* A device: one more than its number, so that it is no null pointer. */
typedef uintptr_t nvmlDevice_t;

/* Numbers of enum nvmlReturn_enum. Those of gpu.h are CUDA's. */
enum {
	SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NO_SUPPORT = 3, NO_DEVICE_FOUND = 6,
	INSUFFICIENT_SIZE = 7, NO_LIBRARY = 12,
};

/* The numbers of fields and values that are known. */
enum {
	SWITCH_LINKS = 147, UNSIGNED_INT = 1,
	P2P_READ = 0, P2P_WRITE = 1, P2P_ATOMICS = 3, P2P_CAPABILITIES = 5, P2P_NO = 5,
};

/* struct nvmlFieldValue_st. */
struct field {
	unsigned id, scope;
	long long at, latency;
	int type, result;
	union {
		unsigned number;
		unsigned long long wide;
	} value;
};

/* struct nvmlPciInfo_st. */
struct pci {
	char short_name[16];
	unsigned domain, bus, device, id, subsystem;
	char name[32];
};

/* struct nvmlMemory_st. */
struct memory {
	unsigned long long total, free, used;
};

static int users; /* calls of nvmlInit without one of nvmlShutdown */

static nvmlReturn_t begin(void) {
	if (gpu_ready())
		return NO_LIBRARY;
	__atomic_add_fetch(&users, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

static nvmlReturn_t begun(void) {
	return gpu_ready() == OK && __atomic_load_n(&users, __ATOMIC_RELAXED) > 0 ? SUCCESS : UNINITIALIZED;
}

/* Stores the properties of a device. */
static nvmlReturn_t look(nvmlDevice_t device, struct gpu_properties *g) {
	nvmlReturn_t error = begun();
	if (error)
		return error;
	if (device == 0 || device > (nvmlDevice_t)gpu_devices())
		return INVALID_ARGUMENT;
	return gpu_properties((int)device - 1, g) == OK ? SUCCESS : INVALID_ARGUMENT;
}

static nvmlReturn_t store(const char *text, char *to, unsigned size) {
	if (!to)
		return INVALID_ARGUMENT;
	return (unsigned)snprintf(to, size, "%s", text) < size ? SUCCESS : INSUFFICIENT_SIZE;
}

API nvmlReturn_t nvmlInit(void) { return begin(); }
API nvmlReturn_t nvmlInit_v2(void) { return begin(); }
API nvmlReturn_t nvmlInitWithFlags(unsigned flags) { return flags & ~3u ? INVALID_ARGUMENT : begin(); }

API nvmlReturn_t nvmlShutdown(void) {
	nvmlReturn_t error = begun();
	if (!error)
		__atomic_sub_fetch(&users, 1, __ATOMIC_RELAXED);
	return error;
}

API const char *nvmlErrorString(nvmlReturn_t error) {
	switch (error) {
	case SUCCESS: return "Success";
	case UNINITIALIZED: return "Uninitialized";
	case INVALID_ARGUMENT: return "Invalid Argument";
	case NO_SUPPORT: return "Not Supported";
	case NO_DEVICE_FOUND: return "Not Found";
	case INSUFFICIENT_SIZE: return "Insufficient Size";
	case NO_LIBRARY: return "NVML Shared Library Not Found";
	}
	return "Unknown Error";
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) {
	nvmlReturn_t error = begun();
	if (error || !n)
		return error ? error : INVALID_ARGUMENT;
	*n = (unsigned)gpu_devices();
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCount(unsigned *n) { return nvmlDeviceGetCount_v2(n); }

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
	nvmlReturn_t error = begun();
	if (error || !device || index >= (unsigned)gpu_devices())
		return error ? error : INVALID_ARGUMENT;
	*device = index + 1;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *name, nvmlDevice_t *device) {
	unsigned domain = 0, bus, slot;
	int n;
	nvmlReturn_t error = begun();
	if (error || !name || !device)
		return error ? error : INVALID_ARGUMENT;
	if (sscanf(name, "%x:%x:%x", &domain, &bus, &slot) != 3) {
		domain = 0;
		if (sscanf(name, "%x:%x", &bus, &slot) != 2)
			return INVALID_ARGUMENT;
	}
	if (gpu_device_of_bus((int)domain, (int)bus, (int)slot, &n))
		return NO_DEVICE_FOUND;
	*device = (nvmlDevice_t)n + 1;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *name, nvmlDevice_t *device) {
	return nvmlDeviceGetHandleByPciBusId_v2(name, device);
}

API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
	struct gpu_properties g;
	nvmlReturn_t error = look(device, &g);
	if (error || !index)
		return error ? error : INVALID_ARGUMENT;
	*index = (unsigned)device - 1;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned size) {
	struct gpu_properties g;
	nvmlReturn_t error = look(device, &g);
	return error ? error : store(g.name, name, size);
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size) {
	struct gpu_properties g;
	char text[48] = "GPU-";
	nvmlReturn_t error = look(device, &g);
	if (error)
		return error;
	for (int k = 0, at = 4; k < 16; k++)
		at += sprintf(text + at, k == 4 || k == 6 || k == 8 || k == 10 ? "-%02x" : "%02x", g.uuid[k]);
	return store(text, uuid, size);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct pci *p) {
	struct gpu_properties g;
	nvmlReturn_t error = look(device, &g);
	if (error || !p)
		return error ? error : INVALID_ARGUMENT;
	memset(p, 0, sizeof *p);
	p->domain = (unsigned)g.domain;
	p->bus = (unsigned)g.bus;
	p->device = (unsigned)g.device;
	snprintf(p->short_name, sizeof p->short_name, "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff,
	         p->device & 0xff);
	snprintf(p->name, sizeof p->name, "%08X:%02X:%02X.0", p->domain, p->bus & 0xff, p->device & 0xff);
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
	struct gpu_properties g;
	nvmlReturn_t error = look(device, &g);
	if (error || !major || !minor)
		return error ? error : INVALID_ARGUMENT;
	*major = g.major;
	*minor = g.minor;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct memory *m) {
	struct gpu_properties g;
	uint64_t available, total;
	nvmlReturn_t error = look(device, &g);
	if (error || !m)
		return error ? error : INVALID_ARGUMENT;
	if (gpu_info((int)device - 1, &available, &total))
		return INVALID_ARGUMENT;
	m->total = total;
	m->free = available;
	m->used = total - available;
	return SUCCESS;
}

/* Devices reach each other's memory, by no NVLink. */
API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, int capability, int *status) {
	struct gpu_properties g;
	nvmlReturn_t error = look(one, &g);
	if (!error)
		error = look(other, &g);
	if (error)
		return error;
	if (!status || capability < 0 || capability >= P2P_CAPABILITIES)
		return INVALID_ARGUMENT;
	*status = capability == P2P_READ || capability == P2P_WRITE || capability == P2P_ATOMICS ? 0 : P2P_NO;
	return SUCCESS;
}

/* Each value has its own result. */
API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int n, struct field *values) {
	struct gpu_properties g;
	nvmlReturn_t error = look(device, &g);
	if (error || n < 0 || (n > 0 && !values))
		return error ? error : INVALID_ARGUMENT;
	for (struct field *f = values; f < values + n; f++) {
		f->at = f->latency = 0;
		f->value.wide = 0;
		f->type = UNSIGNED_INT;
		f->result = f->id == SWITCH_LINKS ? SUCCESS : NO_SUPPORT;
	}
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *active) {
	struct gpu_properties g;
	nvmlReturn_t error = look(device, &g);
	(void)link; (void)active;
	return error ? error : NO_SUPPORT;
}

API nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, int which,
                                               unsigned *value) {
	(void)which; (void)value;
	return nvmlDeviceGetNvLinkState(device, link, NULL);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, struct pci *p) {
	(void)p;
	return nvmlDeviceGetNvLinkState(device, link, NULL);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned link, struct pci *p) {
	return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, p);
}

/* A link as fast GPUs have it, by which NCCL weighs paths: PCIe 4.0 with 16 lanes. */
static nvmlReturn_t link_property(nvmlDevice_t device, unsigned is, unsigned *value) {
	struct gpu_properties g;
	nvmlReturn_t error = look(device, &g);
	if (error || !value)
		return error ? error : INVALID_ARGUMENT;
	*value = is;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *generation) {
	return link_property(device, 4, generation);
}

API nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *lanes) {
	return link_property(device, 16, lanes);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
	if (!version)
		return INVALID_ARGUMENT;
	*version = 13000;
	return SUCCESS;
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
	return nvmlSystemGetCudaDriverVersion_v2(version);
}
