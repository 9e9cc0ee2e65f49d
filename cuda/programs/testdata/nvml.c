/*
 * Asks NVML for the topology of two devices, as NVSHMEM does while it starts. Prints ok, or what was wrong.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { SWITCH_LINKS = 147, P2P_WRITE = 1, P2P_NVLINK = 2, P2P_STATUS_NOT_SUPPORTED = 5 };

struct field {
	unsigned id, scope;
	long long at, latency;
	int type, result;
	union { unsigned n; unsigned long long wide; } value;
};
struct pci { char short_name[16]; unsigned domain, bus, device, id, subsystem; char name[32]; };

static void *library;

static int (*f(const char *name))() {
	int (*p)() = (int (*)())dlsym(library, name);
	if (!p) {
		printf("%s: not there\n", name);
		exit(1);
	}
	return p;
}

#define WANT(value, call) \
	do { \
		int is_ = (call); \
		if (is_ != (value)) { \
			printf("line %d: %s is %d, and not %d\n", __LINE__, #call, is_, value); \
			exit(1); \
		} \
	} while (0)
#define CALL(name, ...) (f(name)(__VA_ARGS__))

int main(void) {
	uintptr_t first = 0, second = 0, same = 0;
	unsigned n = 0;
	int status = -1;
	char text[96];
	struct pci place;
	struct field fields[2] = {{.id = SWITCH_LINKS, .result = -1, .value.n = 7}, {.id = 1, .result = -1}};
	library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	WANT(UNINITIALIZED, CALL("nvmlDeviceGetCount_v2", &n));
	WANT(0, CALL("nvmlInit"));
	WANT(0, CALL("nvmlDeviceGetCount_v2", &n));
	WANT(2, (int)n);
	WANT(0, CALL("nvmlDeviceGetHandleByIndex_v2", 0u, &first));
	WANT(0, CALL("nvmlDeviceGetHandleByIndex_v2", 1u, &second));
	WANT(INVALID_ARGUMENT, CALL("nvmlDeviceGetHandleByIndex_v2", 2u, &same));
	WANT(0, CALL("nvmlDeviceGetPciInfo_v3", second, &place));
	WANT(0, CALL("nvmlDeviceGetHandleByPciBusId_v2", place.name, &same));
	WANT(1, same == second && same != first);
	WANT(0, CALL("nvmlDeviceGetHandleByPciBusId", place.short_name, &same));
	WANT(1, same == second);
	WANT(NOT_FOUND, CALL("nvmlDeviceGetHandleByPciBusId", "0000:ee:00.0", &same));
	WANT(INVALID_ARGUMENT, CALL("nvmlDeviceGetHandleByPciBusId", "nonsense", &same));
	WANT(0, CALL("nvmlDeviceGetIndex", second, &n));
	WANT(1, (int)n);
	WANT(0, CALL("nvmlDeviceGetUUID", first, text, (unsigned)sizeof text));
	WANT(40, (int)strlen(text));
	WANT(INSUFFICIENT_SIZE, CALL("nvmlDeviceGetUUID", first, text, 40u));
	WANT(0, CALL("nvmlDeviceGetFieldValues", first, 2, fields));
	WANT(0, fields[0].result);
	WANT(0, (int)fields[0].value.n);
	WANT(NOT_SUPPORTED, fields[1].result);
	WANT(0, CALL("nvmlDeviceGetP2PStatus", first, second, P2P_WRITE, &status));
	WANT(0, status);
	WANT(0, CALL("nvmlDeviceGetP2PStatus", first, second, P2P_NVLINK, &status));
	WANT(P2P_STATUS_NOT_SUPPORTED, status);
	WANT(INVALID_ARGUMENT, CALL("nvmlDeviceGetP2PStatus", first, (uintptr_t)9, P2P_WRITE, &status));
	WANT(0, CALL("nvmlDeviceGetCurrPcieLinkGeneration", second, &n));
	WANT(4, (int)n);
	WANT(0, CALL("nvmlDeviceGetCurrPcieLinkWidth", second, &n));
	WANT(16, (int)n);
	WANT(0, CALL("nvmlShutdown"));
	WANT(UNINITIALIZED, CALL("nvmlShutdown"));
	printf("ok\n");
	return 0;
}
