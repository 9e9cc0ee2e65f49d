/*
 * Calls CUDA's driver as the static runtime of CUDA does: by private tables, in its order and with its
 * arguments. Prints ok, or what was wrong.
 */
#include "digest.h"
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { INVALID = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };
enum { NOT_FOUND = 500, NOT_SUPPORTED = 801 };

typedef void (*function)(void);
typedef int (*any)();

static void *driver;

static any f(const char *name) {
	any p = (any)dlsym(driver, name);
	if (!p) {
		printf("%s is not there\n", name);
		exit(1);
	}
	return p;
}

static int get(const function **table, const char *uuid) {
	uint8_t bytes[16];
	for (int k = 0; k < 16; k++) {
		unsigned b;
		sscanf(uuid, "%2x", &b);
		bytes[k] = (uint8_t)b;
		uuid += 2 + (uuid[2] == '-');
	}
	return f("cuGetExportTable")(table, bytes);
}

/* Returns a table of so many slots, of which the first says how many there are. */
static const function *sized(const char *uuid, size_t slots) {
	const function *t = NULL;
	OK(get(&t, uuid));
	CHECK((size_t)t[0] == slots * sizeof *t);
	for (size_t k = 1; k < slots; k++)
		CHECK(t[k]);
	return t;
}

#define SLOT(table, n) ((any)(table)[n])

/* ---- a test of the driver, and contexts ---- */

static const function *runtime;

static size_t add32(uint8_t *to, size_t at, uint32_t v) {
	memcpy(to + at, &v, 4);
	return at + 4;
}

static size_t add64(uint8_t *to, size_t at, uint64_t v) {
	memcpy(to + at, &v, 8);
	return at + 8;
}

static size_t add_device(uint8_t *to, size_t at, int device) {
	enum { DOMAIN = 50, BUS = 33, NUMBER = 34 };
	static const int attributes[] = {DOMAIN, BUS, NUMBER};
	OK(f("cuDeviceGetUuid")(to + at, device));
	at += 16;
	for (int k = 0; k < 3; k++) {
		int v;
		OK(f("cuDeviceGetAttribute")(&v, attributes[k], device));
		at = add32(to, at, (uint32_t)v);
	}
	return at;
}

static void digests(void) {
	static const struct { const char *text; uint8_t want[4]; } known[] = { /* RFC 1319, appendix A.5 */
		{"", {0x83, 0x50, 0xe5, 0xa3}},
		{"a", {0x32, 0xec, 0x01, 0xec}},
		{"message digest", {0xab, 0x4f, 0x49, 0x6b}},
		{"12345678901234567890123456789012345678901234567890123456789012345678901234567890", {0xd5, 0x97, 0x6f, 0x79}},
	};
	for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
		struct digest d = {0};
		uint8_t out[DIGEST];
		digest_add(&d, known[k].text, strlen(known[k].text));
		digest_end(&d, out);
		CHECK(!memcmp(out, known[k].want, sizeof known[k].want));
	}
}

static void *validity(void *version_) {
	static const uint8_t key[DIGEST] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
	                                    0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f};
	const function *t = sized("d4082055-bde6-704b-8d34-ba123c66e1f2", 3);
	uint32_t version = *(uint32_t *)version_;
	uint64_t now = (uint64_t)time(NULL), answer[2];
	uint8_t message[48 + 2 * 28], proof[DIGEST];
	int driver_version;
	size_t n = 0;
	OK(SLOT(t, 1)(version, now, answer));
	CHECK(answer[0] == 0x3341181c03cb675c && answer[1] == 0x8ed383aa1f4cd1e8);
	OK(SLOT(t, 1)(version + 1, now, answer));
	CHECK(answer[0] == 0x1841181c03cb675c && answer[1] == 0x8ed383aa1f4cd1e8);
	OK(f("cuDriverGetVersion")(&driver_version));
	n = add32(message, n, (uint32_t)driver_version);
	n = add32(message, n, version + 2);
	n = add32(message, n, (uint32_t)getpid());
	n = add32(message, n, (uint32_t)pthread_self());
	n = add64(message, n, (uint64_t)runtime);
	n = add64(message, n, (uint64_t)t);
	n = add64(message, n, (uint64_t)t[1]);
	n = add64(message, n, now);
	n = add_device(message, n, 0);
	n = add_device(message, n, 1);
	CHECK(n == sizeof message);
	digest_hmac(key, message, n, proof);
	OK(SLOT(t, 1)(version + 2, now, answer));
	CHECK(!memcmp(answer, proof, sizeof proof));
	OK(SLOT(t, 1)(version + 2, now + 1, answer));
	CHECK(memcmp(answer, proof, sizeof proof));
	WANT(INVALID, SLOT(t, 1)(version, now, NULL));
	return NULL;
}

static void contexts(void *c[2]) {
	void *same;
	unsigned flags;
	int active;
	for (int device = 0; device < 2; device++) {
		OK(SLOT(runtime, 2)(&c[device], device));
		OK(f("cuDevicePrimaryCtxGetState")(device, &flags, &active));
		CHECK(!active);
		OK(f("cuDevicePrimaryCtxRetain")(&same, device));
		CHECK(c[device] == same && c[device]);
	}
	CHECK(c[0] != c[1]);
	WANT(101, SLOT(runtime, 2)(&same, 2));
	WANT(INVALID, SLOT(runtime, 2)(NULL, 0));
}

static void tools(void) {
	const function *t = sized("a094798c-2e74-2e74-93f2-0800200c0a66", 7);
	for (int slot = 2; slot <= 6; slot += 4) {
		const char *entries = NULL;
		size_t size = 0;
		((void (*)())t[slot])(&entries, &size);
		CHECK(entries && size > 0);
		for (size_t k = 0; k < size; k++)
			CHECK(!entries[k]);
	}
}

static void states(void *context) {
	const function *t = sized("263e8860-7cd2-6143-92f6-bbd5006dfa7e", 4);
	uint32_t wrong = 7;
	void *more = NULL;
	OK(SLOT(t, 3)());
	OK(SLOT(t, 2)(context, &wrong, &more));
	CHECK(wrong == 0);
}

/* ---- what a context keeps ---- */

static struct { void *context, *key, *value; int n; } ended;

static void end(void *context, void *key, void *value) {
	ended.context = context;
	ended.key = key;
	ended.value = value;
	ended.n++;
}

static void storage(void *c[2]) {
	const function *t = NULL;
	int key, other, a, b;
	void *v = NULL;
	any put, remove_, look;
	OK(get(&t, "c693336e-1121-df11-a8c3-68f355d89593"));
	put = SLOT(t, 0);
	remove_ = SLOT(t, 1);
	look = SLOT(t, 2);
	OK(f("cuCtxSetCurrent")(NULL));
	WANT(INVALID_CONTEXT, look(&v, NULL, &key));
	OK(f("cuCtxSetCurrent")(c[0]));
	WANT(INVALID_HANDLE, look(&v, NULL, &key));
	OK(put(NULL, &key, &a, end));
	OK(put(c[1], &key, &b, end));
	OK(put(c[0], &other, &other, end));
	OK(look(&v, NULL, &key));
	CHECK(v == &a);
	OK(look(&v, c[1], &key));
	CHECK(v == &b);
	OK(put(c[0], &key, &key, end)); /* in place of a */
	OK(look(&v, c[0], &key));
	CHECK(v == &key);
	OK(remove_(c[0], &other));
	WANT(INVALID_HANDLE, remove_(c[0], &other));
	CHECK(ended.n == 0);
	OK(f("cuDevicePrimaryCtxReset_v2")(0));
	CHECK(ended.n == 1 && ended.context == c[0] && ended.key == &key && ended.value == &key);
	WANT(INVALID_HANDLE, look(&v, c[0], &key));
	OK(look(&v, c[1], &key));
	OK(remove_(c[1], &key));
	OK(f("cuDevicePrimaryCtxReset_v2")(1));
	CHECK(ended.n == 1);
	WANT(NOT_SUPPORTED, SLOT(t, 3)());
}

/* ---- fat binaries ---- */

static const char head[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
static const char store[] =
	".visible .entry store(.param .u64 p)\n{\n.reg .b64 %p; .reg .b32 %v;\nld.param.u64 %p, [p];\nmov.b32 %v, 42;\n"
	"st.global.u32 [%p], %v;\nret;\n}\n";
static const char relocatable[] =
	".extern .global .align 4 .u32 number;\n"
	".visible .entry store(.param .u64 p)\n{\n.reg .b64 %p, %q; .reg .b32 %v;\nld.param.u64 %p, [p];\nmov.b64 %q, number;\n"
	"ld.global.u32 %v, [%q];\nst.global.u32 [%p], %v;\nret;\n}\n";
static const char number[] = ".visible .global .align 4 .u32 number = 43;\n";

struct wrapper {
	uint32_t magic, version;
	void *container;
	void **more;
};

/* Returns a container with PTX, which is not compressed, or without any. */
static void *container(const char *text) {
	enum { HEADER = 16, ENTRY = 64 };
	size_t n = text ? (sizeof head + strlen(text) + 7) / 8 * 8 : 0, body = text ? ENTRY + n : 0;
	uint8_t *c = calloc(1, HEADER + ENTRY + n);
	uint32_t magic = 0xba55ed50, size = ENTRY, sm = 80;
	uint16_t version = 1, header = HEADER, kind = 1, format = 0x101, minor = 0, major = 7;
	uint64_t flags = 0x11, length = n, all = body;
	memcpy(c, &magic, 4);
	memcpy(c + 4, &version, 2);
	memcpy(c + 6, &header, 2);
	memcpy(c + 8, &all, 8);
	if (!text)
		return c;
	c += HEADER;
	memcpy(c, &kind, 2);
	memcpy(c + 2, &format, 2);
	memcpy(c + 4, &size, 4);
	memcpy(c + 8, &length, 8);
	memcpy(c + 24, &minor, 2);
	memcpy(c + 26, &major, 2);
	memcpy(c + 28, &sm, 4);
	memcpy(c + 40, &flags, 8);
	snprintf((char *)c + ENTRY, n, "%s%s", head, text);
	return c - HEADER;
}

/* The module's kernel stores v. */
static void stores(uint64_t module, uint32_t v) {
	uint64_t kernel, at;
	uint32_t got = 0;
	void *args[] = {&at};
	OK(f("cuModuleGetFunction")(&kernel, module, "store"));
	OK(f("cuMemAlloc_v2")(&at, (size_t)4));
	OK(f("cuLaunchKernel")(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	OK(f("cuMemcpyDtoH_v2")(&got, at, (size_t)4));
	CHECK(got == v);
	OK(f("cuMemFree_v2")(at));
}

static void binaries(void *context) {
	void *more[] = {container(relocatable), container(number), NULL};
	struct wrapper one = {0x466243b1, 1, container(store), NULL};
	struct wrapper linked = {0x466243b1, 2, container(NULL), more};
	uint64_t module;
	OK(f("cuCtxPushCurrent_v2")(context));
	OK(SLOT(runtime, 1)(&module, &one));
	stores(module, 42);
	OK(SLOT(runtime, 8)(one.container, &module, NULL, NULL, 0));
	stores(module, 42);
	OK(SLOT(runtime, 6)(&module, &linked, NULL, NULL, 0));
	stores(module, 43);
	((void (*)())runtime[7])(&linked);
	OK(f("cuModuleUnload")(module));
	OK(SLOT(runtime, 12)());
	WANT(NOT_SUPPORTED, SLOT(runtime, 6)(&module, &one, NULL, NULL, 1));
	WANT(INVALID, SLOT(runtime, 6)(&module, NULL, NULL, NULL, 0));
	OK(f("cuCtxPopCurrent_v2")(&context));
}

/* ---- mistakes ---- */

static void refused(void) {
	const function *t = (const function *)&t;
	WANT(NOT_FOUND, get(&t, "f8cff951-2146-8b4e-b9e2-fb469e7c0dd9")); /* without a word */
	CHECK(!t);
	WANT(NOT_FOUND, get(&t, "00112233-4455-6677-8899-aabbccddeeff"));
	CHECK(!t);
	WANT(INVALID, f("cuGetExportTable")(NULL, "0123456789abcdef"));
	t = sized("42d85a81-23f6-cb47-8298-f6e78a3aecdc", 4);
	for (int k = 1; k < 4; k++)
		WANT(NOT_SUPPORTED, SLOT(t, k)());
	WANT(NOT_SUPPORTED, SLOT(runtime, 11)());
	WANT(NOT_SUPPORTED, SLOT(runtime, 11)());
}

/* A child of fork has none of the driver's threads. */
static void child(void *context) {
	const function *t = NULL;
	uint64_t answer[2];
	void *v;
	OK(get(&t, "c693336e-1121-df11-a8c3-68f355d89593"));
	WANT(NOT_INITIALIZED, SLOT(t, 2)(&v, context, &v));
	WANT(NOT_INITIALIZED, SLOT(t, 1)(context, &v));
	WANT(NOT_INITIALIZED, SLOT(runtime, 2)(&v, 0));
	OK(get(&t, "d4082055-bde6-704b-8d34-ba123c66e1f2"));
	WANT(NOT_INITIALIZED, SLOT(t, 1)(13002, (uint64_t)0, answer));
}

int main(void) {
	uint32_t versions[] = {11080, 12040, 13000};
	void *c[2];
	int status;
	pid_t pid;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	CHECK(driver);
	digests();
	OK(f("cuInit")(0));
	runtime = sized("6bd5fb6c-5bf4-e74a-8987-d93912fd9df9", 13);
	contexts(c);
	tools();
	for (int k = 0; k < 3; k++) {
		pthread_t other;
		validity(&versions[k]);
		CHECK(!pthread_create(&other, NULL, validity, &versions[k]));
		CHECK(!pthread_join(other, NULL));
	}
	states(c[0]);
	storage(c);
	binaries(c[1]);
	refused();
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		child(c[0]);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	printf("ok\n");
	return 0;
}
