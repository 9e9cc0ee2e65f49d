/* Contexts. Each thread has a stack of them; the top says which device its calls are for. */
#include "tables.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_STACKED = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context primaries[MOST_DEVICES];
static int retained[MOST_DEVICES];
static uint64_t contexts = MOST_DEVICES; /* the number of the last one */
static __thread struct context *stack[MOST_STACKED];
static __thread int depth;

int bound(void) { return gpu_chosen() < 0 ? INVALID_CONTEXT : OK; }

static struct context *primary(CUdevice device) {
	pthread_mutex_lock(&lock);
	primaries[device].device = device;
	primaries[device].primary = 1;
	primaries[device].number = (uint64_t)device + 1;
	pthread_mutex_unlock(&lock);
	return &primaries[device];
}

/* If the runtime has chosen another device since, its primary context takes the place of the top, or is the
 * first one of the stack. */
static struct context *top(void) {
	if (gpu_chosen() < 0)
		return NULL;
	if (depth == 0)
		stack[depth++] = primary(gpu_chosen());
	else if (stack[depth - 1]->device != gpu_chosen())
		stack[depth - 1] = primary(gpu_chosen());
	return stack[depth - 1];
}

static void choose(void) { gpu_set_current(depth > 0 ? stack[depth - 1]->device : -1); }

static int gone(CUcontext c) { return !c || __atomic_load_n(&c->destroyed, __ATOMIC_RELAXED); }

static int known(CUdevice device) { return device < 0 || device >= gpu_devices() ? INVALID_DEVICE : OK; }

static int find(CUcontext *c, CUdevice device) {
	if (known(device))
		return INVALID_DEVICE;
	*c = primary(device);
	return OK;
}

int private_context(CUcontext *c, CUdevice device) { return c ? STARTED(find(c, device)) : INVALID_VALUE; }

static int retain(CUcontext *c, CUdevice device) {
	if (find(c, device))
		return INVALID_DEVICE;
	__atomic_add_fetch(&retained[device], 1, __ATOMIC_RELAXED);
	return OK;
}

static int release(CUdevice device) {
	if (known(device))
		return INVALID_DEVICE;
	if (__atomic_load_n(&retained[device], __ATOMIC_RELAXED) == 0)
		return INVALID_CONTEXT;
	__atomic_sub_fetch(&retained[device], 1, __ATOMIC_RELAXED);
	return OK;
}

/* Memory and modules stay. */
static int reset(CUdevice device) {
	int error;
	if (known(device))
		return INVALID_DEVICE;
	error = gpu_synchronize(device);
	storage_end(primary(device));
	return error;
}

static int state(CUdevice device, unsigned *flags, int *active) {
	if (known(device))
		return INVALID_DEVICE;
	*flags = primary(device)->flags;
	*active = __atomic_load_n(&retained[device], __ATOMIC_RELAXED) > 0;
	return OK;
}

static int set_flags(CUdevice device, unsigned flags) {
	if (known(device))
		return INVALID_DEVICE;
	primary(device)->flags = flags;
	return OK;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice device) { return STARTED(retain(c, device)); }
API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return STARTED(release(device)); }
API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return STARTED(reset(device)); }
API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) { return STARTED(set_flags(device, flags)); }
API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) { return STARTED(state(device, flags, active)); }

static int push(CUcontext c) {
	if (gone(c))
		return INVALID_CONTEXT;
	top();
	if (depth == MOST_STACKED)
		return INVALID_VALUE;
	stack[depth++] = c;
	choose();
	return OK;
}

static int pop(CUcontext *c) {
	if (!top())
		return INVALID_CONTEXT;
	depth--;
	if (c)
		*c = stack[depth];
	choose();
	return OK;
}

static int set(CUcontext c) {
	if (c && gone(c))
		return INVALID_CONTEXT;
	top();
	if (depth == 0 && c)
		return push(c);
	if (depth > 0 && c)
		stack[depth - 1] = c;
	else if (depth > 0)
		depth--;
	choose();
	return OK;
}

static int get(CUcontext *c) {
	*c = top();
	return OK;
}

static int create(CUcontext *c, unsigned flags, CUdevice device) {
	top();
	if (depth == MOST_STACKED)
		return INVALID_VALUE;
	if (known(device))
		return INVALID_DEVICE;
	*c = calloc(1, sizeof **c);
	if (!*c)
		return 2; /* CUDA_ERROR_OUT_OF_MEMORY */
	(*c)->device = device;
	(*c)->flags = flags;
	(*c)->number = __atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
	return push(*c);
}

/* The memory stays: other threads may have the context on their stacks. */
static int destroy(CUcontext c) {
	if (!c || c->primary || __atomic_exchange_n(&c->destroyed, 1, __ATOMIC_RELAXED))
		return INVALID_CONTEXT;
	top();
	for (int k = depth; k-- > 0;)
		if (stack[k] == c) {
			for (int j = k; j + 1 < depth; j++)
				stack[j] = stack[j + 1];
			depth--;
		}
	choose();
	storage_end(c);
	return OK;
}

API CUresult cuCtxPushCurrent_v2(CUcontext c) { return STARTED(push(c)); }
API CUresult cuCtxPopCurrent_v2(CUcontext *c) { return STARTED(pop(c)); }
API CUresult cuCtxSetCurrent(CUcontext c) { return STARTED(set(c)); }
API CUresult cuCtxGetCurrent(CUcontext *c) { return STARTED(get(c)); }
API CUresult cuCtxDestroy_v2(CUcontext c) { return STARTED(destroy(c)); }
API CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice device) { return STARTED(create(c, flags, device)); }

API CUresult cuCtxCreate_v3(CUcontext *c, void *affinity, int n, unsigned flags, CUdevice device) {
	(void)affinity; (void)n;
	return cuCtxCreate_v2(c, flags, device);
}

API CUresult cuCtxCreate_v4(CUcontext *c, void *parameters, unsigned flags, CUdevice device) {
	(void)parameters;
	return cuCtxCreate_v2(c, flags, device);
}

static int device(CUdevice *d) {
	*d = HERE;
	return OK;
}

static int number(CUcontext c, unsigned long long *n) {
	*n = (c ? c : top())->number;
	return OK;
}

static int flags_of(unsigned *flags) {
	*flags = top()->flags;
	return OK;
}

static int set_flags_of(unsigned flags) {
	top()->flags = flags;
	return OK;
}

static int version(CUcontext c, unsigned *v) {
	(void)c;
	*v = 3020;
	return OK;
}

static int range(int *least, int *greatest) {
	if (least)
		*least = 0;
	if (greatest)
		*greatest = 0;
	return OK;
}

/* Kernels have as much stack as they need, and printf prints at once. */
static int limit(size_t *value) {
	*value = 1 << 20;
	return OK;
}

API CUresult cuCtxGetDevice(CUdevice *d) { return BOUND(device(d)); }
API CUresult cuCtxGetId(CUcontext c, unsigned long long *n) { return BOUND(number(c, n)); }
API CUresult cuCtxGetFlags(unsigned *flags) { return BOUND(flags_of(flags)); }
API CUresult cuCtxSetFlags(unsigned flags) { return BOUND(set_flags_of(flags)); }
API CUresult cuCtxGetApiVersion(CUcontext c, unsigned *v) { return STARTED(version(c, v)); }
API CUresult cuCtxSynchronize(void) { return BOUND(gpu_synchronize(HERE)); }
API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { return BOUND(range(least, greatest)); }
API CUresult cuCtxGetLimit(size_t *value, int which) { (void)which; return BOUND(limit(value)); }
API CUresult cuCtxSetLimit(int which, size_t value) { (void)which; (void)value; return BOUND(OK); }
API CUresult cuCtxSetCacheConfig(int config) { (void)config; return BOUND(OK); }
API CUresult cuCtxSetSharedMemConfig(int config) { (void)config; return BOUND(OK); }
API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
	return BOUND(!peer ? INVALID_CONTEXT : flags ? INVALID_VALUE : gpu_peer(HERE, peer->device, 1));
}
API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
	return BOUND(peer ? gpu_peer(HERE, peer->device, 0) : INVALID_CONTEXT);
}
API CUresult cuCtxResetPersistingL2Cache(void) { return BOUND(OK); }
