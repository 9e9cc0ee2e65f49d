/* Memory without an address, addresses without memory, and memory of other processes. */
#include "driver.h"

#include <string.h>

struct location { int type, number; };

/* struct CUmemAllocationProp. */
struct properties {
	int type, handles;
	struct location where;
	void *security;
	struct { unsigned char compression, rdma; unsigned short usage; unsigned char reserved[4]; } flags;
};

enum { PINNED = 1, ON_DEVICE = 1, BY_FD = 1, GRANULARITY = 2 << 20 };

static int checked(const struct properties *p) {
	if (!p || p->type != PINNED)
		return INVALID_VALUE;
	if (p->where.type != ON_DEVICE || (p->handles & ~BY_FD) || p->flags.compression)
		return NOT_SUPPORTED;
	return p->where.number < 0 || p->where.number >= gpu_devices() ? INVALID_DEVICE : OK;
}

static int granularity(size_t *bytes, const struct properties *p) {
	*bytes = GRANULARITY;
	return checked(p);
}

static int create(uint64_t *handle, size_t size, const struct properties *p) {
	int error = checked(p);
	return error ? error : gpu_create(size, handle);
}

API CUresult cuMemGetAllocationGranularity(size_t *bytes, const struct properties *p, int option) {
	(void)option;
	return STARTED(granularity(bytes, p));
}

API CUresult cuMemCreate(uint64_t *handle, size_t size, const struct properties *p,
                         unsigned long long flags) {
	return flags ? INVALID_VALUE : BOUND(create(handle, size, p));
}

API CUresult cuMemRelease(uint64_t handle) { return STARTED(gpu_release(handle)); }

API CUresult cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
                                 unsigned long long flags) {
	if (flags || (alignment & (alignment - 1)))
		return INVALID_VALUE;
	return STARTED(gpu_reserve(size, alignment > GRANULARITY ? alignment : GRANULARITY, hint, at));
}

API CUresult cuMemAddressFree(CUdeviceptr at, size_t size) { return STARTED(gpu_unreserve(at, size)); }

API CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, uint64_t handle, unsigned long long flags) {
	return flags ? INVALID_VALUE : STARTED(gpu_map(at, size, offset, handle));
}

API CUresult cuMemUnmap(CUdeviceptr at, size_t size) { return STARTED(gpu_unmap(at, size)); }

/* struct CUmemAccessDesc. */
struct access { struct location where; int flags; };

static int set_access(CUdeviceptr at, size_t size, const struct access *a, size_t n) {
	int error = OK;
	for (size_t k = 0; k < n && !error; k++)
		if (a[k].where.type == ON_DEVICE && a[k].flags)
			error = gpu_set_access(a[k].where.number, at, size);
	return error;
}

API CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const struct access *a, size_t n) {
	return STARTED(set_access(at, size, a, n));
}

API CUresult cuMemGetAccess(unsigned long long *flags, const struct location *where, CUdeviceptr at) {
	int kind, device;
	void *first;
	uint64_t size;
	(void)where;
	gpu_find(to_pointer(at), &kind, &device, &first, &size);
	*flags = kind ? 3 : 0;
	return STARTED(OK);
}

API CUresult cuMemExportToShareableHandle(int *fd, uint64_t handle, int type, unsigned long long flags) {
	return type != BY_FD ? NOT_SUPPORTED : flags ? INVALID_VALUE : STARTED(gpu_export(handle, fd));
}

API CUresult cuMemImportFromShareableHandle(uint64_t *handle, void *fd, int type) {
	return type != BY_FD ? NOT_SUPPORTED : STARTED(gpu_import((int)(intptr_t)fd, handle));
}

API CUresult cuMemRetainAllocationHandle(uint64_t *handle, void *at) {
	return STARTED(gpu_retain(to_address(at), handle));
}

API CUresult cuMemGetAllocationPropertiesFromHandle(struct properties *p, uint64_t handle) {
	(void)handle;
	memset(p, 0, sizeof *p);
	p->type = PINNED;
	p->handles = BY_FD;
	p->where.type = ON_DEVICE;
	return STARTED(OK);
}

API CUresult cuIpcGetMemHandle(struct gpu_shared *h, CUdeviceptr at) { return BOUND(gpu_share(h, at)); }

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, struct gpu_shared h, unsigned flags) {
	(void)flags;
	return BOUND(gpu_attach_shared(at, &h));
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr at) { return BOUND(gpu_detach_shared(at)); }
