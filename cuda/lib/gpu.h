/*
 * Functions that C calls, and Go has (export.go). All return codes of CUDA's runtime, unless another type
 * says otherwise; pointers are to memory of C. They may be called by any thread.
 */
#ifndef NICLESS_GPU_H
#define NICLESS_GPU_H

#include <stddef.h>
#include <stdint.h>

enum {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_SYMBOL = 13, NO_DEVICE = 100,
	INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
	PEER_ENABLED = 704, PEER_NOT_ENABLED = 705, CONTEXT_IS_DESTROYED = 709, NOT_SUPPORTED = 801,
};

/* The properties of a device. */
struct gpu_properties {
	char name[256];
	uint8_t uuid[16];
	uint64_t total, shared, shared_opt_in, shared_of_sm, constant;
	int32_t registers, warp, threads, block[3], grid[3], clock, major, minor, sms, threads_of_sm,
		blocks_of_sm, l2, texture, pitch, domain, bus, device;
};

/* The properties of a kernel. */
struct gpu_attributes {
	uint64_t shared, local, dynamic; /* dynamic: how much shared memory a launch may add */
	int32_t threads;
};

struct gpu_launch {
	uint32_t grid[3], block[3];
	uint64_t shared;
	void **args;  /* pointers to the parameters, or NULL: */
	void *packed; /* the parameters, one behind the other */
	uint64_t packed_size;
	int cooperative;
};

/* The thread's device, which CUDA's runtime and driver both choose. If none: 0, and gpu_chosen says -1. */
int gpu_current(void);
int gpu_chosen(void);
void gpu_set_current(int device);

void gpu_begin(void); /* by cuInit, and by the runtime on behalf of its programs */
int gpu_begun(void);

/* Whether the stream 0 of the thread's calls is its own one (2), and not the legacy one (1). */
int gpu_own_stream(void);
void gpu_set_own_stream(int on);

/* Lets gpu_thread_ends be called when the calling thread ends, which then drops its streams. */
void gpu_tell_end_of_thread(void);
void gpu_thread_ends(void);

int gpu_open(void); /* makes the system that the environment describes */
int gpu_devices(void);
int gpu_properties(int device, struct gpu_properties *p);
int gpu_device_of_bus(int domain, int bus, int device, int *number);
int gpu_broken(int device);
int gpu_synchronize(int device);
char *gpu_text(int code);
char *gpu_name(int code);

uint64_t gpu_register(void *wrapper); /* of a fat binary */
void gpu_unregister(uint64_t binary);
void gpu_function(uint64_t binary, void *stub, char *name);
void gpu_variable(uint64_t binary, void *shadow, char *name, uint64_t size);
int gpu_symbol(int device, void *shadow, void **address, uint64_t *size);
int gpu_module_load(int device, void *image, uint64_t *module);
void gpu_module_unload(uint64_t module);
int gpu_module_function(int device, uint64_t module, char *name, uint64_t *function); /* stands for a stub */
int gpu_module_global(int device, uint64_t module, char *name, void **address, uint64_t *size);
int gpu_function_attributes(int device, void *stub, struct gpu_attributes *a);
/* Stores how many blocks of a kernel a multiprocessor has at a time. */
int gpu_occupancy(int *n, int device, void *stub, int block, uint64_t shared);
int gpu_function_allow(int device, void *stub, uint64_t dynamic);

int gpu_allocate(int device, uint64_t n, int kind, void **address);
int gpu_free(int device, void *address); /* not memory of the host */

/* Allocate memory of a device and give it back, in the order of a stream of another one or the same. */
int gpu_allocate_in(int device, uint64_t stream, int of, uint64_t n, void **address);
int gpu_free_in(int device, uint64_t stream, int of, void *address);

int gpu_free_host(int device, void *address);
int gpu_can_reach(int device, int peer, int *can);
int gpu_peer(int device, int peer, int on); /* lets the device reach the peer's memory, or no longer */
int gpu_info(int device, uint64_t *free, uint64_t *total);
int gpu_host_register(int device, void *address, uint64_t n, unsigned flags);
int gpu_host_unregister(int device, void *address);
int gpu_host_flags(int device, void *address, unsigned *flags);
int gpu_find(void *address, int *kind, int *device, void **first, uint64_t *size);

int gpu_copy(int device, uint64_t stream, void *to, void *from, uint64_t n, int way);
int gpu_set(int device, uint64_t stream, void *to, unsigned value, unsigned size, uint64_t n);
int gpu_launch(int device, uint64_t stream, void *stub, struct gpu_launch *l);
int gpu_call(int device, uint64_t stream, void *f, void *with);

int gpu_stream_new(int device, unsigned flags, int priority, uint64_t *stream);
int gpu_stream_destroy(int device, uint64_t stream);
int gpu_stream_synchronize(int device, uint64_t stream);
int gpu_stream_query(int device, uint64_t stream);
int gpu_stream_wait(int device, uint64_t stream, uint64_t event);
int gpu_stream_flags(int device, uint64_t stream, unsigned *flags, int *priority);

int gpu_event_new(int device, unsigned flags, uint64_t *event);
int gpu_event_destroy(uint64_t event);
int gpu_event_record(uint64_t event, int device, uint64_t stream);
int gpu_event_synchronize(uint64_t event);
int gpu_event_query(uint64_t event);
int gpu_event_elapsed(uint64_t begin, uint64_t end, float *ms);

int gpu_write_value(int device, uint64_t stream, void *address, uint64_t v, int wide);
int gpu_wait_value(int device, uint64_t stream, void *address, uint64_t v, int wide, unsigned condition);

int gpu_create(uint64_t size, uint64_t *handle);
int gpu_release(uint64_t handle);
int gpu_reserve(uint64_t size, uint64_t align, uint64_t hint, uint64_t *address); /* align: a power of two */
int gpu_unreserve(uint64_t address, uint64_t size);
int gpu_map(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle);
int gpu_unmap(uint64_t address, uint64_t size);
int gpu_set_access(int device, uint64_t address, uint64_t size);
int gpu_export(uint64_t handle, int *fd);
int gpu_import(int fd, uint64_t *handle);
int gpu_retain(uint64_t address, uint64_t *handle);
int gpu_attach(int device, int fd, uint64_t offset, uint64_t size, uint64_t *address);
int gpu_detach(int device, uint64_t address); /* ends gpu_attach */
int gpu_file(uint64_t address, uint64_t size, int *fd, uint64_t *offset);

/* Like gpu_file, but the descriptor is that of the memory, and is closed when that is given back. */
int gpu_own_file(uint64_t address, uint64_t size, int *fd, uint64_t *offset);

#endif
