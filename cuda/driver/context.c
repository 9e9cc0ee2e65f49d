/* Contexts. Each thread has a stack of them; the top says which device its calls are for. */
#include "tables.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_STACKED = 64 };

/* Those of cuCtxCreate are in a list, and each device has a primary one. The lock protects all. */
struct context {
	int device, retained; /* retained: of a primary one */
	unsigned flags;
	uint64_t number;
	struct context *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context primaries[MOST_DEVICES], *made;
static uint64_t numbers = MOST_DEVICES; /* the last one of a context */
static uint64_t destroyed;              /* how many there were */

/* A thread's stack has handles, because a context may end while other threads have it. */
static __thread struct entry { CUcontext c; int device; } stack[MOST_STACKED];
static __thread int depth;
static __thread struct { uint64_t destroyed; CUcontext top; int lost; } looked; /* of the last bound */

enum { SHIFT = 4 }; /* a handle is a multiple of 16, as a pointer of malloc is */

static CUcontext handle_of(uint64_t number) { return to_pointer(number << SHIFT); }

static CUcontext primary(CUdevice device) { return handle_of((uint64_t)device + 1); }

/* Returns a context, or NULL if it has ended or never was. The lock is held. */
static struct context *find(CUcontext c) {
	uint64_t number = to_address(c) >> SHIFT;
	struct context *at;
	if (handle_of(number) != c || number == 0)
		return NULL;
	if (number <= MOST_DEVICES) {
		primaries[number - 1].device = (int)number - 1;
		primaries[number - 1].number = number;
		return number <= (uint64_t)gpu_devices() ? &primaries[number - 1] : NULL;
	}
	for (at = made; at && at->number != number; at = at->next)
		;
	return at;
}

/* Calls f with a context and what it needs, under the lock. */
static int use(CUcontext c, int (*f)(struct context *c, void *with), void *with) {
	struct context *at;
	int error;
	pthread_mutex_lock(&lock);
	at = find(c);
	error = at ? f(at, with) : INVALID_CONTEXT;
	pthread_mutex_unlock(&lock);
	return error;
}

/* If the runtime has chosen another device since, its primary context takes the place of the top, or is the
 * first one of the stack. */
static CUcontext top(void) {
	int device = gpu_chosen();
	if (device < 0)
		return NULL;
	if (depth == 0 || stack[depth - 1].device != device)
		stack[depth ? depth - 1 : depth++] = (struct entry){primary(device), device};
	return stack[depth - 1].c;
}

static int exists(struct context *c, void *with) {
	(void)c; (void)with;
	return OK;
}

/* The top is looked for only if it is another one, or a context has been destroyed. */
int bound(void) {
	uint64_t now = __atomic_load_n(&destroyed, __ATOMIC_ACQUIRE);
	CUcontext c = top();
	if (!c)
		return INVALID_CONTEXT;
	if (looked.top != c || looked.destroyed != now) {
		looked.lost = use(c, exists, NULL) != OK;
		looked.top = c;
		looked.destroyed = now;
	}
	return looked.lost ? CONTEXT_IS_DESTROYED : OK;
}

static void choose(void) { gpu_set_current(depth > 0 ? stack[depth - 1].device : -1); }

static int known(CUdevice device) { return device < 0 || device >= gpu_devices() ? INVALID_DEVICE : OK; }

static int primary_of(CUcontext *c, CUdevice device) {
	if (known(device))
		return INVALID_DEVICE;
	*c = primary(device);
	return OK;
}

int private_context(CUcontext *c, CUdevice device) {
	return c ? STARTED(primary_of(c, device)) : INVALID_VALUE;
}

static int add_retained(struct context *c, void *n) {
	if (c->retained + *(int *)n < 0)
		return INVALID_CONTEXT;
	c->retained += *(int *)n;
	return OK;
}

static int retain(CUdevice device, int n) {
	return known(device) ? INVALID_DEVICE : use(primary(device), add_retained, &n);
}

static int retain_as(CUcontext *c, CUdevice device) {
	return primary_of(c, device) ? INVALID_DEVICE : retain(device, 1);
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

static int copy(struct context *c, void *to) {
	*(struct context *)to = *c;
	return OK;
}

static int store_flags(struct context *c, void *flags) {
	c->flags = *(unsigned *)flags;
	return OK;
}

static int state(CUdevice device, unsigned *flags, int *active) {
	struct context c = {0};
	if (known(device))
		return INVALID_DEVICE;
	use(primary(device), copy, &c);
	*flags = c.flags;
	*active = c.retained > 0;
	return OK;
}

static int set_flags(CUdevice device, unsigned flags) {
	return known(device) ? INVALID_DEVICE : use(primary(device), store_flags, &flags);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice device) { return STARTED(retain_as(c, device)); }
API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return STARTED(retain(device, -1)); }
API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return STARTED(reset(device)); }
API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
	return STARTED(set_flags(device, flags));
}
API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
	return STARTED(state(device, flags, active));
}

static int push(CUcontext c) {
	struct context of;
	if (use(c, copy, &of))
		return INVALID_CONTEXT;
	top();
	if (depth == MOST_STACKED)
		return INVALID_VALUE;
	stack[depth++] = (struct entry){c, of.device};
	choose();
	return OK;
}

static int pop(CUcontext *c) {
	if (!top())
		return INVALID_CONTEXT;
	depth--;
	if (c)
		*c = stack[depth].c;
	choose();
	return OK;
}

static int set(CUcontext c) {
	if (c && use(c, exists, NULL))
		return INVALID_CONTEXT;
	if (top())
		depth--;
	choose();
	return c ? push(c) : OK;
}

static int get(CUcontext *c) {
	*c = top();
	return OK;
}

static int create(CUcontext *c, unsigned flags, CUdevice device) {
	struct context *new;
	top();
	if (depth == MOST_STACKED)
		return INVALID_VALUE;
	if (known(device))
		return INVALID_DEVICE;
	new = calloc(1, sizeof *new);
	if (!new)
		return OUT_OF_MEMORY;
	new->device = device;
	new->flags = flags;
	pthread_mutex_lock(&lock);
	new->number = ++numbers;
	new->next = made;
	made = new;
	*c = handle_of(new->number);
	pthread_mutex_unlock(&lock);
	return push(*c);
}

/* Ends a context of cuCtxCreate, but for the values that libraries keep for it. */
static int drop(struct context *c, void *with) {
	struct context **at = &made;
	(void)with;
	while (*at && *at != c)
		at = &(*at)->next;
	if (!*at)
		return INVALID_CONTEXT; /* a primary one */
	*at = c->next;
	free(c);
	__atomic_add_fetch(&destroyed, 1, __ATOMIC_RELEASE);
	return OK;
}

/* It stays on the stacks of other threads, whose calls return that it was destroyed. */
static int destroy(CUcontext c) {
	int kept = 0;
	if (use(c, drop, NULL))
		return INVALID_CONTEXT;
	top();
	for (int k = 0; k < depth; k++)
		if (stack[k].c != c)
			stack[kept++] = stack[k];
	depth = kept;
	choose();
	storage_end(c);
	return OK;
}

API CUresult cuCtxPushCurrent_v2(CUcontext c) { return STARTED(push(c)); }
API CUresult cuCtxPopCurrent_v2(CUcontext *c) { return STARTED(pop(c)); }
API CUresult cuCtxSetCurrent(CUcontext c) { return STARTED(set(c)); }
API CUresult cuCtxGetCurrent(CUcontext *c) { return STARTED(get(c)); }
API CUresult cuCtxDestroy_v2(CUcontext c) { return STARTED(destroy(c)); }
API CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice device) {
	return STARTED(create(c, flags, device));
}

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
	struct context of;
	int error = use(c ? c : top(), copy, &of);
	if (error == OK)
		*n = of.number;
	return error;
}

static int flags_of(unsigned *flags) {
	struct context of;
	int error = use(top(), copy, &of);
	if (error == OK)
		*flags = of.flags;
	return error;
}

static int set_flags_of(unsigned flags) { return use(top(), store_flags, &flags); }

static int version(CUcontext c, unsigned *v) {
	*v = 3020;
	return use(c ? c : top(), exists, NULL);
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

static int peer(CUcontext c, int on) {
	struct context of;
	int error = use(c, copy, &of);
	return error ? error : gpu_peer(HERE, of.device, on);
}

API CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned flags) {
	return BOUND(flags ? INVALID_VALUE : peer(c, 1));
}
API CUresult cuCtxDisablePeerAccess(CUcontext c) { return BOUND(peer(c, 0)); }
API CUresult cuCtxResetPersistingL2Cache(void) { return BOUND(OK); }
