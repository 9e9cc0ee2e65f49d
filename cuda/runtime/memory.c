/* Memory of devices and of the host, copies and variables. */
#include "runtime.h"

enum { HOST = 1, DEVICE = 2, MANAGED = 3 };

/* Allocates memory of a kind. */
static int allocate(void **p, size_t n, int kind) {
	if (!p)
		return INVALID_VALUE;
	*p = NULL;
	return gpu_allocate(current, n, kind, p);
}

API cudaError_t cudaMalloc(void **p, size_t n) { return DO(allocate(p, n, DEVICE)); }

API cudaError_t cudaMallocManaged(void **p, size_t n, unsigned flags) {
	(void)flags;
	return DO(n ? allocate(p, n, MANAGED) : INVALID_VALUE);
}

API cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags) {
	(void)flags;
	return DO(allocate(p, n, HOST));
}

API cudaError_t cudaMallocHost(void **p, size_t n) { return cudaHostAlloc(p, n, 0); }

/* Memory may be of another device than the thread's. */
static int device_of(const void *p) {
	int kind, device;
	void *first;
	uint64_t size;
	gpu_find((void *)p, &kind, &device, &first, &size);
	return device < 0 ? current : device;
}

API cudaError_t cudaFree(void *p) { return DO(gpu_free(device_of(p), p)); }
API cudaError_t cudaFreeHost(void *p) { return DO(gpu_free_host(device_of(p), p)); }

API cudaError_t cudaMallocAsync(void **p, size_t n, stream_t stream) {
	return DO(p && n ? gpu_allocate_in(current, stream, current, n, p) : INVALID_VALUE);
}

API cudaError_t cudaFreeAsync(void *p, stream_t stream) {
	return DO(gpu_free_in(current, stream, device_of(p), p));
}

API cudaError_t cudaMemGetInfo(size_t *free_, size_t *total) { return DO(gpu_info(current, free_, total)); }

API cudaError_t cudaHostRegister(void *p, size_t n, unsigned flags) {
	return DO(gpu_host_register(current, p, n, flags));
}
API cudaError_t cudaHostUnregister(void *p) { return DO(gpu_host_unregister(device_of(p), p)); }
API cudaError_t cudaHostGetFlags(unsigned *flags, void *p) {
	return DO(gpu_host_flags(device_of(p), p, flags));
}

/* A device knows host memory by the address by which the host knows it. */
API cudaError_t cudaHostGetDevicePointer(void **there, void *p, unsigned flags) {
	int kind, device;
	void *first;
	uint64_t size;
	(void)flags;
	if (ready())
		return note(NOT_INITIALIZED);
	gpu_find(p, &kind, &device, &first, &size);
	*there = kind == HOST || kind == MANAGED ? p : NULL;
	return note(*there ? OK : INVALID_VALUE);
}

/* struct cudaPointerAttributes. */
struct pointer {
	int kind, device;
	void *there, *here;
};

API cudaError_t cudaPointerGetAttributes(struct pointer *a, void *p) {
	void *first;
	uint64_t size;
	if (ready())
		return note(NOT_INITIALIZED);
	if (!a)
		return note(INVALID_VALUE);
	gpu_find(p, &a->kind, &a->device, &first, &size);
	a->there = a->kind ? p : NULL;
	a->here = a->kind == DEVICE ? NULL : p;
	return OK;
}

API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int way, stream_t stream) {
	return DO(gpu_copy(current, stream, to, (void *)from, n, way));
}

API cudaError_t cudaMemcpy(void *to, const void *from, size_t n, int way) {
	int error = cudaMemcpyAsync(to, from, n, way, 0);
	return error ? error : DO(gpu_stream_synchronize(current, 0));
}

API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t n,
                                    stream_t stream) {
	(void)to_device; (void)from_device;
	return cudaMemcpyAsync(to, from, n, 3, stream);
}

API cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t n) {
	(void)to_device; (void)from_device;
	return cudaMemcpy(to, from, n, 3);
}

API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                  size_t width, size_t height, int way, stream_t stream) {
	int error = OK;
	if (width > to_pitch || width > from_pitch)
		return DO(INVALID_VALUE);
	for (size_t y = 0; y < height && !error; y++)
		error = cudaMemcpyAsync((char *)to + y * to_pitch, (const char *)from + y * from_pitch, width, way,
		                        stream);
	return error;
}

API cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                             size_t height, int way) {
	int error = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, way, 0);
	return error ? error : DO(gpu_stream_synchronize(current, 0));
}

API cudaError_t cudaMemsetAsync(void *to, int value, size_t n, stream_t stream) {
	return DO(gpu_set(current, stream, to, (unsigned)value & 255, 1, n));
}

API cudaError_t cudaMemset(void *to, int value, size_t n) {
	int error = cudaMemsetAsync(to, value, n, 0);
	return error ? error : DO(gpu_stream_synchronize(current, 0));
}

static int symbol(const void *shadow, void **at, uint64_t offset, uint64_t n) {
	uint64_t size;
	int error = gpu_symbol(current, own(shadow), at, &size);
	if (error)
		return error;
	if (offset > size || n > size - offset)
		return INVALID_VALUE;
	*at = (char *)*at + offset;
	return OK;
}

API cudaError_t cudaGetSymbolAddress(void **p, const void *shadow) { return DO(symbol(shadow, p, 0, 0)); }

API cudaError_t cudaGetSymbolSize(size_t *size, const void *shadow) {
	void *at;
	return DO(gpu_symbol(current, own(shadow), &at, size));
}

API cudaError_t cudaMemcpyToSymbolAsync(const void *shadow, const void *from, size_t n, size_t offset,
                                        int way, stream_t stream) {
	void *at;
	int error = DO(symbol(shadow, &at, offset, n));
	return error ? error : cudaMemcpyAsync(at, from, n, way, stream);
}

API cudaError_t cudaMemcpyToSymbol(const void *shadow, const void *from, size_t n, size_t offset, int way) {
	int error = cudaMemcpyToSymbolAsync(shadow, from, n, offset, way, 0);
	return error ? error : DO(gpu_stream_synchronize(current, 0));
}

API cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *shadow, size_t n, size_t offset, int way,
                                          stream_t stream) {
	void *at;
	int error = DO(symbol(shadow, &at, offset, n));
	return error ? error : cudaMemcpyAsync(to, at, n, way, stream);
}

API cudaError_t cudaMemcpyFromSymbol(void *to, const void *shadow, size_t n, size_t offset, int way) {
	int error = cudaMemcpyFromSymbolAsync(to, shadow, n, offset, way, 0);
	return error ? error : DO(gpu_stream_synchronize(current, 0));
}
