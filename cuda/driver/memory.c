/* Memory of devices and of the host, copies, and what pointers are. */
#include "driver.h"

#include <string.h>

enum { HOST = 1, DEVICE = 2, MANAGED = 3 }; /* kinds, as gpu_find returns them */

static int allocate(CUdeviceptr *at, size_t n, int kind) {
	void *p = NULL;
	int error;
	if (n == 0)
		return INVALID_VALUE;
	error = gpu_allocate(HERE, n, kind, &p);
	*at = to_address(p);
	return error;
}

static int allocate_host(void **p, size_t n) { return n ? gpu_allocate(HERE, n, HOST, p) : INVALID_VALUE; }

/* Memory may be of another device than the thread's. */
static int release(const void *p, int (*give)(int device, void *address)) {
	int kind, device;
	void *first;
	uint64_t size;
	gpu_find((void *)p, &kind, &device, &first, &size);
	return device < 0 ? INVALID_VALUE : give(device, (void *)p);
}

static int allocate_in(CUdeviceptr *at, size_t n, CUstream s) {
	void *p = NULL;
	int error = n ? gpu_allocate_in(HERE, s, HERE, n, &p) : INVALID_VALUE;
	if (error == OK)
		*at = to_address(p);
	return error;
}

static int release_in(CUdeviceptr at, CUstream s) {
	int kind, device;
	void *first;
	uint64_t size;
	gpu_find(to_pointer(at), &kind, &device, &first, &size);
	return device < 0 ? INVALID_VALUE : gpu_free_in(HERE, s, device, to_pointer(at));
}

API CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t n) { return BOUND(allocate(at, n, DEVICE)); }
API CUresult cuMemAllocManaged(CUdeviceptr *at, size_t n, unsigned flags) {
	(void)flags;
	return BOUND(allocate(at, n, MANAGED));
}
API CUresult cuMemAllocAsync(CUdeviceptr *at, size_t n, CUstream s) { return BOUND(allocate_in(at, n, s)); }
API CUresult cuMemFree_v2(CUdeviceptr at) { return BOUND(at ? release(to_pointer(at), gpu_free) : OK); }
API CUresult cuMemFreeAsync(CUdeviceptr at, CUstream s) { return BOUND(at ? release_in(at, s) : OK); }
API CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags) {
	(void)flags;
	return BOUND(allocate_host(p, n));
}
API CUresult cuMemAllocHost_v2(void **p, size_t n) { return cuMemHostAlloc(p, n, 0); }
API CUresult cuMemFreeHost(void *p) { return BOUND(release(p, gpu_free_host)); }

API CUresult cuMemAllocPitch_v2(CUdeviceptr *at, size_t *pitch, size_t width, size_t height,
                                unsigned element) {
	(void)element;
	*pitch = (width + 511) / 512 * 512;
	return BOUND(allocate(at, *pitch * height, DEVICE));
}

static int info(size_t *free_, size_t *total) {
	uint64_t f = 0, t = 0;
	int error = gpu_info(HERE, &f, &t);
	*free_ = f;
	*total = t;
	return error;
}

API CUresult cuMemGetInfo_v2(size_t *free_, size_t *total) { return BOUND(info(free_, total)); }

API CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
	return BOUND(gpu_host_register(HERE, p, n, flags));
}

static int unregister(void *p) {
	int kind, device;
	void *first;
	uint64_t size;
	gpu_find(p, &kind, &device, &first, &size);
	return gpu_host_unregister(device < 0 ? HERE : device, p);
}

API CUresult cuMemHostUnregister(void *p) { return BOUND(unregister(p)); }
API CUresult cuMemHostGetFlags(unsigned *flags, void *p) { return BOUND(gpu_host_flags(HERE, p, flags)); }

/* A device knows host memory by the address by which the host knows it. */
static int device_pointer(CUdeviceptr *at, const void *p) {
	int kind, device;
	void *first;
	uint64_t size;
	gpu_find((void *)p, &kind, &device, &first, &size);
	if (kind != HOST && kind != MANAGED)
		return INVALID_VALUE;
	*at = to_address(p);
	return OK;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *at, void *p, unsigned flags) {
	return flags ? INVALID_VALUE : BOUND(device_pointer(at, p));
}

static int range(CUdeviceptr *first, size_t *size, CUdeviceptr at) {
	int kind, device;
	void *p;
	uint64_t n;
	gpu_find(to_pointer(at), &kind, &device, &p, &n);
	if (!kind)
		return NOT_FOUND;
	if (first)
		*first = to_address(p);
	if (size)
		*size = n;
	return OK;
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *first, size_t *size, CUdeviceptr at) {
	return BOUND(range(first, size, at));
}

/* A dma-buf of NVIDIA's driver becomes a file in memory here, which a NIC's server takes in its place. */
static int descriptor(int *fd, CUdeviceptr at, size_t size, int type) {
	uint64_t offset;
	int error;
	if (type != 1)
		return NOT_SUPPORTED;
	error = gpu_file(at, size, fd, &offset);
	return error ? error : offset ? NOT_SUPPORTED : OK;
}

API CUresult cuMemGetHandleForAddressRange(int *fd, CUdeviceptr at, size_t size, int type,
                                           unsigned long long flags) {
	return flags > 1 ? INVALID_VALUE : BOUND(descriptor(fd, at, size, type));
}

/* A NIC's server stores into the memory itself, and never behind a bus: nothing is left to be flushed. */
static int flush(int target, int scope) {
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return target != 0 || (scope != 100 && scope != 200) ? INVALID_VALUE : OK;
}

API CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) { return BOUND(flush(target, scope)); }

/* The numbers are those of enum CUpointer_attribute. */
API CUresult cuCtxGetCurrent(CUcontext *c);
API CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice device);
static int attribute(void *to, int number, CUdeviceptr at) {
	int kind, device;
	void *first;
	uint64_t size;
	CUcontext c = NULL;
	gpu_find(to_pointer(at), &kind, &device, &first, &size);
	if (!kind && number != 9)
		return INVALID_VALUE;
	switch (number) {
	case 1: cuDevicePrimaryCtxRetain(&c, device); *(CUcontext *)to = c; break;
	case 2: *(unsigned *)to = kind == HOST ? 1 : 2; break;
	case 3: *(CUdeviceptr *)to = at; break;
	case 4:
		if (kind == DEVICE)
			return INVALID_VALUE;
		*(void **)to = to_pointer(at);
		break;
	case 6: *(unsigned *)to = 1; break;                        /* copies are in order with others */
	case 7: *(unsigned long long *)to = to_address(first); break; /* a number of the allocation */
	case 8: *(unsigned *)to = kind == MANAGED; break;
	case 9: *(int *)to = device; break;
	case 10: *(unsigned *)to = kind == DEVICE; break;
	case 11: *(CUdeviceptr *)to = to_address(first); break;
	case 12: *(size_t *)to = size; break;
	case 13: *(unsigned *)to = 1; break;
	case 14: *(unsigned long long *)to = 1; break;
	case 15: *(unsigned *)to = kind == DEVICE; break;
	case 16: *(unsigned *)to = 3; break; /* read and write */
	default: return INVALID_VALUE;
	}
	return OK;
}

static int attributes(unsigned n, const int *numbers, void **to, CUdeviceptr at) {
	for (unsigned k = 0; k < n; k++)
		if (attribute(to[k], numbers[k], at))
			memset(to[k], 0, 4);
	return OK;
}

API CUresult cuPointerGetAttribute(void *to, int number, CUdeviceptr at) {
	return BOUND(attribute(to, number, at));
}
API CUresult cuPointerGetAttributes(unsigned n, int *numbers, void **to, CUdeviceptr at) {
	return BOUND(attributes(n, numbers, to, at));
}

API CUresult cuPointerSetAttribute(const void *value, int number, CUdeviceptr at) {
	(void)value; (void)at;
	return BOUND(number == 6 ? OK : INVALID_VALUE);
}

/* ---- copies ---- */

enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICES = 3, ANY = 4 }; /* as gpu_copy knows them */

static int copy(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s, int way) {
	return gpu_copy(HERE, s, to_pointer(to), to_pointer(from), n, way);
}

static int wait(int error) { return error ? error : gpu_stream_synchronize(HERE, 0); }

#define COPY(to, from, n, way) BOUND(wait(copy(to, from, n, 0, way)))
#define COPY_ASYNC(to, from, n, s, way) BOUND(copy(to, from, n, s, way))

API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) { return COPY(to, from, n, ANY); }
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
	return COPY_ASYNC(to, from, n, s, ANY);
}
API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n) {
	return COPY(to, to_address(from), n, TO_DEVICE);
}
API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n) {
	return COPY(to_address(to), from, n, TO_HOST);
}
API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
	return COPY(to, from, n, ON_DEVICES);
}
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s) {
	return COPY_ASYNC(to, to_address(from), n, s, TO_DEVICE);
}
API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) {
	return COPY_ASYNC(to_address(to), from, n, s, TO_HOST);
}
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
	return COPY_ASYNC(to, from, n, s, ON_DEVICES);
}

API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t n) {
	(void)there; (void)here;
	return cuMemcpy(to, from, n);
}

API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t n,
                               CUstream s) {
	(void)there; (void)here;
	return cuMemcpyAsync(to, from, n, s);
}

static int set(CUdeviceptr to, unsigned v, unsigned size, size_t n, CUstream s) {
	return gpu_set(HERE, s, to_pointer(to), v, size, n);
}

API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
	return BOUND(set(to, v, 1, n, s));
}
API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream s) {
	return BOUND(set(to, v, 2, n, s));
}
API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream s) {
	return BOUND(set(to, v, 4, n, s));
}
API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n) {
	return BOUND(wait(set(to, v, 1, n, 0)));
}
API CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short v, size_t n) {
	return BOUND(wait(set(to, v, 2, n, 0)));
}
API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned v, size_t n) { return BOUND(wait(set(to, v, 4, n, 0))); }
API CUresult cuMemPrefetchAsync(CUdeviceptr at, size_t n, CUdevice to, CUstream s) {
	(void)at; (void)n; (void)to; (void)s;
	return BOUND(OK);
}
API CUresult cuMemAdvise(CUdeviceptr at, size_t n, int advice, CUdevice to) {
	(void)at; (void)n; (void)advice; (void)to;
	return BOUND(OK);
}
