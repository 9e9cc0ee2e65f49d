/*
 * Calls CUDA's driver as programs do that load their kernels by themselves. Everything is looked up by name
 * first, as NCCL and NVSHMEM do. Prints ok, or what was wrong.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*get)(const char *, void **, int, uint64_t, int *);

static void *f(const char *name) {
	void *p = NULL;
	int status = 7;
	if (get(name, &p, 12080, 0, &status) || !p || status) {
		printf("%s: not there, status %d\n", name, status);
		exit(1);
	}
	return p;
}

#define CALL(name, ...) ((int (*)())f(name))(__VA_ARGS__)
#define WANT(error, name, ...) \
	do { \
		int error_ = CALL(name, __VA_ARGS__); \
		if (error_ != (error)) { \
			printf("line %d: %s returned %d, and not %d\n", __LINE__, name, error_, error); \
			exit(1); \
		} \
	} while (0)
#define OK(name, ...) WANT(0, name, __VA_ARGS__)
#define CHECK(what) \
	do { \
		if (!(what)) { \
			printf("line %d: not so: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .u32 calls;\n"
	".visible .entry add(.param .u64 p, .param .u32 v)\n{\n"
	".reg .b64 %a, %b; .reg .b32 %v, %old;\n"
	"ld.param.u64 %a, [p];\nld.param.u32 %v, [v];\n"
	"atom.global.add.u32 %old, [%a], %v;\n"
	"mov.u64 %b, calls;\natom.global.add.u32 %old, [%b], 1;\nret;\n}\n";

enum { MIB = 1 << 20 };

struct location { int type, number; };

static void virtual_memory(void) {
	struct { int type, handles; struct location where; void *security; uint64_t flags; } p =
		{1, 1, {1, 0}, NULL, 0};
	struct { struct location where; int flags; } access = {{1, 0}, 3};
	uint64_t handle, other, at = 0, twice = 0;
	size_t grain = 0;
	int fd = -1;
	OK("cuMemGetAllocationGranularity", &grain, &p, 0);
	CHECK(grain == 2 * MIB);
	WANT(1, "cuMemCreate", &handle, (size_t)4096, &p, 0ull);
	OK("cuMemCreate", &handle, 2 * grain, &p, 0ull);
	OK("cuMemAddressReserve", &at, 4 * grain, (size_t)0, 0ull, 0ull);
	CHECK(at % grain == 0);
	OK("cuMemAddressReserve", &other, grain, 256 * grain, 0ull, 0ull); /* as NCCL does */
	CHECK(other % (256 * grain) == 0);
	OK("cuMemAddressFree", other, grain);
	WANT(1, "cuMemAddressReserve", &other, grain, 3 * grain, 0ull, 0ull);
	OK("cuMemMap", at, 2 * grain, (size_t)0, handle, 0ull);
	WANT(208, "cuMemMap", at + grain, grain, (size_t)0, handle, 0ull);
	WANT(1, "cuMemsetD32", at, 7, (size_t)16); /* nobody may reach it yet */
	OK("cuMemSetAccess", at, 2 * grain, &access, (size_t)1);
	OK("cuMemsetD32", at, 7, 2 * grain / 4);
	CHECK(*(uint32_t *)at == 7);
	OK("cuMemExportToShareableHandle", &fd, handle, 1, 0ull);
	OK("cuMemImportFromShareableHandle", &other, (void *)(intptr_t)fd, 1);
	close(fd);
	OK("cuMemAddressReserve", &twice, grain, (size_t)0, 0ull, 0ull);
	OK("cuMemMap", twice, grain, grain, other, 0ull);
	OK("cuMemSetAccess", twice, grain, &access, (size_t)1);
	CHECK(*(uint32_t *)twice == 7);
	*(uint32_t *)twice = 8;
	CHECK(*(uint32_t *)(at + grain) == 8);
	OK("cuMemRelease", handle);
	OK("cuMemRelease", other);
	WANT(1, "cuMemAddressFree", at, 4 * grain); /* something is mapped there */
	OK("cuMemUnmap", at, 2 * grain);
	OK("cuMemUnmap", twice, grain);
	OK("cuMemAddressFree", at, 4 * grain);
	OK("cuMemAddressFree", twice, grain);
}

/* NVSHMEM adds a flag to those of its context. */
static void context_flags(void) {
	unsigned before = 0, after = 0;
	OK("cuCtxGetFlags", &before);
	OK("cuCtxSetFlags", before | 128); /* CU_CTX_SYNC_MEMOPS */
	OK("cuCtxGetFlags", &after);
	CHECK(after == (before | 128));
}

/* Another process maps memory of this one. */
static void open_elsewhere(const unsigned char *h, char *self, char *how) {
	char text[129] = "";
	int status;
	for (int k = 0; k < 64; k++)
		sprintf(text + 2 * k, "%02x", h[k]);
	if (fork() == 0) {
		execl(self, self, text, how, NULL);
		_exit(9);
	}
	wait(&status);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int descriptors(void) {
	int n = 0;
	DIR *d = opendir("/proc/self/fd");
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void other_process(uint64_t at, char *self) {
	struct handle { unsigned char b[64]; } h;
	uint64_t gone, mine;
	int before = descriptors();
	for (int k = 0; k < 100; k++)
		OK("cuIpcGetMemHandle", &h, at);
	CHECK(descriptors() == before);
	open_elsewhere(h.b, self, NULL);
	CHECK(*(uint32_t *)at == 1234);
	CHECK(((int (*)(uint64_t *, struct handle, unsigned))f("cuIpcOpenMemHandle"))(&mine, h, 1) == 201);

	/* The handle of memory that was given back is refused, also if other memory has its descriptor. */
	OK("cuMemAlloc", &gone, (size_t)8192);
	OK("cuIpcGetMemHandle", &h, gone);
	OK("cuMemFree", gone);
	open_elsewhere(h.b, self, "gone");
	OK("cuMemAlloc", &gone, (size_t)8192);
	open_elsewhere(h.b, self, "gone");
	OK("cuMemFree", gone);
}

static void begin(void) {
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		printf("%s\n", dlerror());
		exit(1);
	}
	get = (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
	WANT(3, "cuCtxSynchronize"); /* before cuInit */
	OK("cuInit", 0);
	WANT(201, "cuCtxSynchronize"); /* no context */
	WANT(201, "cuProfilerStart");
}

static void attach(const char *text, int gone) {
	struct { unsigned char b[64]; } h;
	void *context;
	uint64_t at = 0;
	for (int k = 0; k < 64; k++) {
		unsigned v;
		sscanf(text + 2 * k, "%2x", &v);
		h.b[k] = (unsigned char)v;
	}
	OK("cuDevicePrimaryCtxRetain", &context, 0);
	OK("cuCtxSetCurrent", context);
	CHECK(((int (*)(uint64_t *, typeof(h), unsigned))f("cuIpcOpenMemHandle"))(&at, h, 1) == (gone ? 400 : 0));
	if (gone)
		return;
	CHECK(*(uint32_t *)at == 42);
	*(uint32_t *)at = 1234;
	WANT(1, "cuMemFree", at); /* it is the other process's */
	OK("cuIpcCloseMemHandle", at);
	WANT(1, "cuIpcCloseMemHandle", at);
	OK("cuMemAlloc", &at, (size_t)16);
	WANT(1, "cuIpcCloseMemHandle", at);
	OK("cuMemFree", at);
}

static int (*of_thread(const char *name))() {
	enum { OWN_STREAM = 2 };
	void *p = NULL;
	CHECK(!get(name, &p, 12080, OWN_STREAM, NULL) && p);
	return (int (*)())p;
}

static void *other_thread(void *at_) {
	uint64_t at = *(uint64_t *)at_ + 72, got = 0;
	void *context;
	OK("cuDevicePrimaryCtxRetain", &context, 0);
	OK("cuCtxSetCurrent", context);
	CHECK(!of_thread("cuMemsetD32Async")(at, 6, (size_t)2, NULL));
	CHECK(!of_thread("cuStreamSynchronize")(NULL));
	CHECK(!of_thread("cuMemcpyDtoH")(&got, at, sizeof got));
	CHECK(got == 0x600000006);
	OK("cuStreamQuery", (uint64_t)2);
	CHECK(CALL("cuStreamQuery", (uint64_t)1) == 600); /* the legacy stream waits for all */
	OK("cuCtxSetCurrent", NULL);
	return NULL;
}

/* The default streams of two threads do not wait for each other. */
static void streams_of_threads(uint64_t at) {
	uint64_t word = at + 64;
	pthread_t other;
	OK("cuMemsetD32", word, 0, (size_t)2);
	CHECK(!of_thread("cuStreamWaitValue64")(NULL, word, 1ull, 0));
	CHECK(of_thread("cuStreamQuery")(NULL) == 600);
	CHECK(!pthread_create(&other, NULL, other_thread, &at) && !pthread_join(other, NULL));
	CHECK(of_thread("cuStreamQuery")(NULL) == 600);
	__atomic_store_n((uint64_t *)word, 1, __ATOMIC_RELEASE);
	CHECK(!of_thread("cuStreamSynchronize")(NULL));
	WANT(400, "cuStreamDestroy", (uint64_t)2);
}

/* A launch has 48 KiB of dynamic shared memory, and more if the program has asked for it. */
static void shared_memory(uint64_t kernel) {
	enum { DYNAMIC = 8, CARVEOUT = 9, MOST = 227 << 10 };
	uint64_t at;
	uint32_t v = 0;
	void *args[] = {&at, &v};
	int n;
	OK("cuMemAlloc", &at, (size_t)4);
	OK("cuFuncGetAttribute", &n, DYNAMIC, kernel);
	CHECK(n == 48 << 10);
	OK("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 48 << 10, NULL, args, NULL);
	WANT(1, "cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, (48 << 10) + 1, NULL, args, NULL);
	WANT(1, "cuFuncSetAttribute", kernel, DYNAMIC, MOST + 1);
	WANT(1, "cuFuncSetAttribute", kernel, DYNAMIC, -1);
	OK("cuFuncSetAttribute", kernel, DYNAMIC, MOST);
	OK("cuFuncGetAttribute", &n, DYNAMIC, kernel);
	CHECK(n == MOST);
	OK("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, MOST, NULL, args, NULL);
	OK("cuKernelSetAttribute", DYNAMIC, 1000, kernel, 0);
	WANT(1, "cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 1001, NULL, args, NULL);
	OK("cuFuncSetAttribute", kernel, CARVEOUT, 100);
	WANT(1, "cuFuncSetAttribute", kernel, CARVEOUT, 101);
	WANT(1, "cuFuncSetAttribute", kernel, 0, 64); /* cannot be set */
	OK("cuCtxSynchronize");
	OK("cuMemFree", at);
}

/* One side of struct CUDA_MEMCPY2D. */
struct side {
	size_t x, y;
	int type;
	void *host;
	uint64_t device;
	void *array;
	size_t pitch;
};

static void rows(void) {
	struct { struct side from, to; size_t width, height; } r = {{0}, {0}, 2, 3};
	uint8_t here[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}, back[40] = {0};
	uint64_t at;
	OK("cuMemAlloc", &at, sizeof back);
	OK("cuMemsetD8", at, 0, sizeof back);
	OK("cuMemsetD2D8", at, (size_t)8, 99, (size_t)7, (size_t)5);
	WANT(1, "cuMemsetD2D32", at, (size_t)6, 99, (size_t)1, (size_t)2); /* misaligned rows */
	r.from = (struct side){1, 0, 1, here, 0, NULL, 4};
	r.to = (struct side){3, 1, 2, NULL, at, NULL, 8};
	OK("cuMemcpy2DUnaligned", &r);
	OK("cuMemcpyDtoH", back, at, sizeof back);
	for (int y = 0; y < 5; y++)
		for (int x = 0; x < 8; x++) {
			int copied = y >= 1 && y < 4 && (x == 3 || x == 4);
			CHECK(back[8 * y + x] == (x == 7 ? 0 : copied ? here[y - 1][x - 2] : 99));
		}
	r.width = 6; /* beyond the row */
	WANT(1, "cuMemcpy2D", &r);
	r.width = 2;
	r.to.y = 3; /* beyond the allocation */
	WANT(1, "cuMemcpy2DAsync", &r, NULL);
	r.to.type = 3;
	WANT(801, "cuMemcpy2D", &r);
	OK("cuMemFree", at);
}

/* A copy whose name says where memory is wants it there. */
static void directions(uint64_t at) {
	uint64_t here = 7;
	WANT(1, "cuMemcpyHtoD", at, &here, (size_t)101); /* one byte too many */
	WANT(1, "cuMemcpyHtoDAsync", (uint64_t)(uintptr_t)&here, &here, sizeof here, NULL);
	WANT(1, "cuMemcpyDtoH", &here, (uint64_t)(uintptr_t)&here, sizeof here);
	WANT(1, "cuMemcpyDtoD", at, (uint64_t)(uintptr_t)&here, sizeof here);
	OK("cuMemcpy", (uint64_t)(uintptr_t)&here, at, sizeof here);
}

/* A context that another thread destroys stays current to this one, whose calls return that it has gone. */
static pthread_barrier_t turn;

static void *holder(void *context) {
	void *now;
	uint64_t at;
	int n;
	OK("cuCtxPushCurrent", context);
	OK("cuCtxSynchronize");
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn); /* the context is destroyed between them */
	WANT(709, "cuCtxSynchronize");
	WANT(709, "cuMemAlloc", &at, (size_t)16);
	WANT(709, "cuCtxGetDevice", &n);
	OK("cuCtxGetCurrent", &now);
	CHECK(now == context);
	WANT(201, "cuCtxSetCurrent", context);
	OK("cuCtxPopCurrent", &now);
	CHECK(now == context);
	WANT(201, "cuCtxSynchronize");
	return NULL;
}

static void destroyed_contexts(void) {
	enum { ROUNDS = 1000 };
	unsigned long long number;
	void *first, *c;
	pthread_t other;
	size_t before;
	unsigned v;
	OK("cuCtxCreate", &first, 0, 0);
	CHECK(!pthread_barrier_init(&turn, NULL, 2) && !pthread_create(&other, NULL, holder, first));
	pthread_barrier_wait(&turn);
	OK("cuCtxDestroy", first);
	pthread_barrier_wait(&turn);
	CHECK(!pthread_join(other, NULL));
	before = mallinfo2().uordblks;
	for (int k = 0; k < ROUNDS; k++) {
		OK("cuCtxCreate", &c, 0, 1);
		CHECK(c != first);
		OK("cuCtxDestroy", c);
	}
	CHECK(mallinfo2().uordblks < before + ROUNDS);
	OK("cuCtxCreate", &c, 0, 1);
	WANT(201, "cuCtxGetId", first, &number);
	WANT(201, "cuCtxGetApiVersion", first, &v);
	WANT(201, "cuCtxEnablePeerAccess", first, 0);
	WANT(201, "cuCtxDestroy", first);
	WANT(201, "cuCtxPushCurrent", (void *)&number); /* no context */
	OK("cuCtxDestroy", c);
}

/* A thread has a stack of contexts, whose top the runtime chooses too. */
static void contexts(void) {
	void *zero, *one, *now, *runtime = dlopen("libcudart.so.12", RTLD_NOW);
	int n;
	CHECK(runtime);
	int (*choose)(int) = (int (*)(int))dlsym(runtime, "cudaSetDevice");
	int (*chosen)(int *) = (int (*)(int *))dlsym(runtime, "cudaGetDevice");
	OK("cuDevicePrimaryCtxRetain", &zero, 0);
	OK("cuDevicePrimaryCtxRetain", &one, 1);
	CHECK(choose(1) == 0);
	OK("cuCtxPushCurrent", zero);
	CHECK(chosen(&n) == 0 && n == 0);
	OK("cuCtxPopCurrent", &now);
	CHECK(now == zero);
	CHECK(chosen(&n) == 0 && n == 1); /* as before */
	OK("cuCtxGetCurrent", &now);
	CHECK(now == one);
	OK("cuCtxCreate", &now, 0, 0);
	OK("cuCtxPushCurrent", zero);
	OK("cuCtxDestroy", now); /* below the top */
	WANT(201, "cuCtxDestroy", now);
	WANT(201, "cuCtxPushCurrent", now);
	WANT(201, "cuCtxSetCurrent", now);
	OK("cuCtxPopCurrent", &now);
	CHECK(now == zero);
	OK("cuCtxPopCurrent", &now);
	CHECK(now == one);
	WANT(201, "cuCtxPopCurrent", &now);
	WANT(201, "cuCtxSynchronize");
	OK("cuDevicePrimaryCtxRelease", 0);
	OK("cuDevicePrimaryCtxRelease", 1);
	WANT(201, "cuDevicePrimaryCtxRelease", 1);
}

int main(int argc, char **argv) {
	void *context, *now, *missing;
	uint64_t module, add, at, calls, s, e, first;
	uint32_t v = 21, got = 0;
	size_t size;
	int n, status;
	unsigned type;
	begin();
	if (argc > 1) {
		attach(argv[1], argc > 2);
		return 0;
	}
	contexts();
	destroyed_contexts();
	CHECK(get("cuNoSuchFunction", &missing, 12080, 0, &status) == 500 && !missing && status == 1);
	OK("cuDriverGetVersion", &n);
	CHECK(n == 13000);
	OK("cuDeviceGetCount", &n);
	CHECK(n == 2);
	OK("cuDevicePrimaryCtxRetain", &context, 1);
	OK("cuCtxPushCurrent", context);
	OK("cuCtxGetDevice", &n);
	CHECK(n == 1);
	OK("cuCtxPopCurrent", &now);
	CHECK(now == context);
	OK("cuCtxCreate", &context, 0, 0);
	OK("cuCtxGetCurrent", &now);
	CHECK(now == context);
	OK("cuDeviceGetAttribute", &n, 75, 0);
	CHECK(n == 9);
	OK("cuProfilerStart");
	OK("cuProfilerStop");

	WANT(218, "cuModuleLoadData", &module,
	     ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry x() {\n");
	OK("cuModuleLoadData", &module, ptx);
	WANT(500, "cuModuleGetFunction", &add, module, "subtract");
	OK("cuModuleGetFunction", &add, module, "add");
	OK("cuModuleGetGlobal", &calls, &size, module, "calls");
	CHECK(size == 4);

	OK("cuMemAlloc", &at, (size_t)100);
	CHECK(at % 256 == 0);
	OK("cuMemsetD32", at, 0, (size_t)25);
	WANT(1, "cuMemsetD32", at, 0, (size_t)26); /* one word too many */
	void *args[] = {&at, &v};
	OK("cuStreamCreate", &s, 1);
	OK("cuEventCreate", &e, 0);
	WANT(1, "cuLaunchKernel", add, 1, 1, 1, 2048, 1, 1, 0, s, args, NULL);
	OK("cuLaunchKernel", add, 1, 1, 1, 2, 1, 1, 0, s, args, NULL);
	struct { uint64_t at; uint32_t v; } packed = {at, 0};
	size_t packed_size = sizeof packed;
	void *extra[] = {(void *)1, &packed, (void *)2, &packed_size, NULL};
	OK("cuLaunchKernel", add, 3, 1, 1, 1, 1, 1, 0, s, NULL, extra);
	WANT(1, "cuLaunchKernel", add, 3, 1, 1, 1, 1, 1, 0, s, NULL, extra + 2); /* a size without a buffer */
	OK("cuEventRecord", e, s);
	OK("cuEventSynchronize", e);
	OK("cuMemcpyDtoH", &got, at, sizeof got);
	CHECK(got == 42);
	OK("cuMemcpyDtoH", &got, calls, sizeof got);
	CHECK(got == 5);
	shared_memory(add);

	/* A stream waits for a word that another one stores. */
	uint64_t other;
	OK("cuStreamCreate", &other, 1);
	OK("cuStreamWaitValue64", s, at + 8, 5ull, 0);
	OK("cuEventRecord", e, s);
	WANT(600, "cuEventQuery", e);
	OK("cuStreamWriteValue64", other, at + 8, 5ull, 0);
	OK("cuEventSynchronize", e);
	WANT(1, "cuStreamWriteValue64", other, at + 9, 5ull, 0);

	OK("cuPointerGetAttribute", &type, 2, at + 50);
	CHECK(type == 2);
	OK("cuMemGetAddressRange", &first, &size, at + 50);
	CHECK(first == at && size == 100);
	WANT(1, "cuPointerGetAttribute", &type, 2, (uint64_t)(uintptr_t)&got);
	uint64_t large;
	int fd = -1;
	OK("cuMemAlloc", &large, (size_t)4 * MIB);
	OK("cuMemGetHandleForAddressRange", &fd, large, (size_t)4 * MIB, 1, 0ull);
	close(fd);
	OK("cuMemFree", large);
	WANT(1, "cuMemFree", large);
	for (int k = 0; k < 3; k++) { /* rings and records of DOCA's queues */
		OK("cuMemAlloc", &large, (size_t)4096);
		OK("cuMemGetHandleForAddressRange", &fd, large, (size_t)4096, 1, 0ull);
		close(fd);
	}
	context_flags();
	OK("cuFlushGPUDirectRDMAWrites", 0, 100);
	WANT(1, "cuFlushGPUDirectRDMAWrites", 1, 100);
	directions(at);
	streams_of_threads(at);
	rows();
	virtual_memory();
	other_process(at, argv[0]);
	OK("cuMemFree", at);
	OK("cuModuleUnload", module);
	OK("cuCtxDestroy", context);
	WANT(201, "cuCtxSynchronize");
	if (fork() == 0)
		_exit(CALL("cuCtxSynchronize") == 3 ? 0 : 1);
	wait(&status);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("ok\n");
	return 0;
}
