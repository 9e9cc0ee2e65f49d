/*
 * Uses the runtimes of CUDA 11 and 12 in one process, by two libraries that are linked with one each
 * (part.cu). It is linked with both libraries, or compiled with OPEN, and opens those that its arguments
 * name. Prints ok, or what was wrong.
 */
#include "check.h"
#include "part.h"

#include <dlfcn.h>

enum { WORDS = 1000, INVALID_DEVICE = 101 };

static void *libraries[2];

#ifdef OPEN
static const struct part *part(int n, char **argv) {
	static const char *const names[] = {"part_11", "part_12"};
	part_function f;
	libraries[n] = dlopen(argv[1 + n], RTLD_NOW | RTLD_GLOBAL);
	if (!libraries[n]) {
		printf("%s\n", dlerror());
		exit(1);
	}
	f = (part_function)dlsym(libraries[n], names[n]);
	CHECK(f);
	return f();
}
#else
const struct part *part_11(void);
const struct part *part_12(void);
static const struct part *part(int n, char **argv) {
	(void)argv;
	return n ? part_12() : part_11();
}
#endif

/* Both add to memory of either, in a stream of either. */
static void share(const struct part *owner, const struct part *other) {
	unsigned *p = owner->allocate(WORDS);
	void *stream = other->stream();
	owner->add(p, WORDS, stream);
	other->add(p, WORDS, stream);
	owner->synchronize(stream);
	for (int k = 0; k < WORDS; k++)
		CHECK(p[k] == 11 + 12);
	other->release(p);
}

static void errors(const struct part *one, const struct part *other) {
	WANT(INVALID_DEVICE, one->fail());
	OK(other->last());
	WANT(INVALID_DEVICE, one->last());
	OK(one->last());
}

int main(int argc, char **argv) {
	const struct part *a, *b;
	(void)argc;
	a = part(0, argv);
	b = part(1, argv);
	CHECK(a->version() == 11000 && b->version() == 12000);
	for (unsigned k = 1; k <= 3; k++) {
		CHECK(a->count() == 11000 + k);
		CHECK(b->count() == 12000 + k);
	}
	share(a, b);
	share(b, a);
	errors(a, b);
	errors(b, a);
	a->choose(1); /* the thread's device is the driver's, and both runtimes see it */
	CHECK(b->chosen() == 1);
	b->choose(0);
	CHECK(a->chosen() == 0);
	if (libraries[1]) { /* the other runtime goes on */
		dlclose(libraries[1]);
		CHECK(a->count() == 11004);
	}
	printf("ok\n");
	return 0;
}
