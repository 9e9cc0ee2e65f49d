/* The properties and attributes of devices. */
#include "runtime.h"

#include <stdio.h>
#include <string.h>

/* Fields that CUDA 13 has no more, and those that came after CUDA 11. */
#if CUDART < 13
#define OLD(...) __VA_ARGS__
#else
#define OLD(...)
#endif
#if CUDART > 11
#define NEW(...) __VA_ARGS__
#else
#define NEW(...)
#endif

/* struct cudaDeviceProp: of 728, 1032 or 1008 bytes. */
struct properties {
	char name[256], uuid[16], luid[8];
	unsigned luid_mask;
	size_t total, shared;
	int registers, warp;
	size_t pitch;
	int threads, block[3], grid[3];
	OLD(int clock;)
	size_t constant;
	int major, minor;
	size_t texture, texture_pitch;
	OLD(int overlap;)
	int sms;
	OLD(int timeout;)
	int integrated, map_host;
	OLD(int compute_mode;)
	int textures[CUDART < 13 ? 40 : 39];
	size_t surface;
	int concurrent, ecc, bus, device, domain, tcc, engines, unified;
	OLD(int memory_clock;)
	int memory_bus, l2, persisting_l2, threads_of_sm, priorities, global_l1, local_l1;
	size_t shared_of_sm;
	int registers_of_sm, managed, multi_board, board_group, native_atomics;
	OLD(int single_to_double;)
	int pageable, concurrent_managed, preemption, host_pointer, cooperative;
	OLD(int cooperative_multi;)
	size_t shared_opt_in;
	int page_tables, direct_managed, blocks_of_sm, window;
	size_t reserved_shared;
	NEW(int host_register, sparse, read_only_register, timeline, pools, direct_rdma;)
	NEW(unsigned flush_writes; int writes_ordering; unsigned pool_handles; int deferred, ipc_event, clusters,
	    pointers;)
#if CUDART == 12
	int reserved[63];
#elif CUDART == 13
	int numa_config, numa_id, mps, host_numa;
	unsigned pci_device, pci_subsystem;
	int numa_ipc, reserved[56];
#endif
};

#if defined(__x86_64__) || defined(__aarch64__)
_Static_assert(sizeof(struct properties) == (CUDART == 11 ? 728 : CUDART == 12 ? 1032 : 1008),
               "struct cudaDeviceProp");
#endif

static int describe(struct properties *p, int device) {
	struct gpu_properties g = {0};
	int error = gpu_properties(device, &g);
	if (error)
		return error;
	memset(p, 0, sizeof *p);
	memcpy(p->name, g.name, sizeof p->name);
	memcpy(p->uuid, g.uuid, sizeof p->uuid);
	p->total = g.total;
	p->shared = g.shared;
	p->registers = p->registers_of_sm = g.registers;
	p->warp = g.warp;
	p->pitch = INT32_MAX;
	p->threads = g.threads;
	memcpy(p->block, g.block, sizeof p->block);
	memcpy(p->grid, g.grid, sizeof p->grid);
	OLD(p->clock = p->memory_clock = g.clock; p->overlap = 1;)
	p->constant = g.constant;
	p->major = g.major;
	p->minor = g.minor;
	p->texture = p->surface = (size_t)g.texture;
	p->texture_pitch = (size_t)g.pitch;
	p->sms = g.sms;
	p->map_host = p->concurrent = p->unified = p->managed = p->priorities = p->global_l1 = p->local_l1 = 1;
	p->native_atomics = p->concurrent_managed = p->host_pointer = p->cooperative = 1;
	p->bus = g.bus;
	p->device = g.device;
	p->domain = g.domain;
	p->engines = 2;
	p->memory_bus = 64;
	p->l2 = g.l2;
	p->threads_of_sm = g.threads_of_sm;
	p->blocks_of_sm = g.blocks_of_sm;
	p->shared_of_sm = g.shared_of_sm;
	p->shared_opt_in = g.shared_opt_in;
	NEW(p->host_register = 1;)
	return OK;
}

/* CUDA 12 has a new struct, and a new name for the function, which 13 gave up. */
#if CUDART == 12
API cudaError_t cudaGetDeviceProperties_v2(struct properties *p, int device) {
	return DO(describe(p, device));
}
#else
API cudaError_t cudaGetDeviceProperties(struct properties *p, int device) { return DO(describe(p, device)); }
#endif

API cudaError_t cudaDeviceGetAttribute(int *value, int number, int device) {
	return DO(gpu_attribute(value, number, device));
}

/* 1 performance rank, 2 access, 3 native atomics, 4 access of arrays. */
static int peers(int *value, int number, int device, int peer) {
	int n = gpu_devices();
	if (device < 0 || device >= n || peer < 0 || peer >= n || device == peer)
		return INVALID_DEVICE;
	if (!value || number < 1 || number > 4)
		return INVALID_VALUE;
	*value = number == 2 || number == 3;
	return OK;
}

API cudaError_t cudaDeviceGetP2PAttribute(int *value, int number, int device, int peer) {
	return DO(peers(value, number, device, peer));
}

API cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device) {
	struct gpu_properties g = {0};
	int error = DO(gpu_properties(device, &g));
	if (error)
		return error;
	return note(snprintf(text, (size_t)size, "%04x:%02x:%02x.0", g.domain, g.bus,
	                     g.device) < size ? OK : INVALID_VALUE);
}

API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text) {
	unsigned domain = 0, bus, number;
	if (sscanf(text, "%x:%x:%x", &domain, &bus, &number) != 3) {
		domain = 0;
		if (sscanf(text, "%x:%x", &bus, &number) != 2)
			return note(INVALID_VALUE);
	}
	return DO(gpu_device_of_bus((int)domain, (int)bus, (int)number, device));
}
