/* ibv_query_rt_values_ex. libmlx5 would read the device clock from a page of the device, in which
 * the clock has to count by itself. No shared memory does that. But the device clock is a counter
 * that every processor has, so this library puts a function that reads the counter in the place
 * of libmlx5's, when the program opens a device (wrap_device.c). */
#include "shim.h"

#include <errno.h>
#include <time.h>

#include "libibverbs.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>

/* The device uses the TSC if it is invariant: CPUID leaf 0x80000007, edx bit 8. Else a cycle is a
 * nanosecond of CLOCK_MONOTONIC (package clock). */
static bool countable(void) {
	unsigned a, b, c, d;
	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}

/* Neither the loads before it nor what follows it changes places with the reading. */
static uint64_t count(void) {
	uint64_t now;
	_mm_lfence();
	now = __rdtsc();
	_mm_lfence();
	return now;
}

/* Between half a microsecond and two. */
static uint64_t microsecond(void) { return 2048; }
#elif defined(__aarch64__)
static bool countable(void) { return true; }

static uint64_t count(void) {
	uint64_t now;
	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(now) : : "memory");
	return now;
}

static uint64_t microsecond(void) {
	uint64_t hz;
	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
	return hz / (1000 * 1000) + 1;
}
#else
static bool countable(void) { return false; }

static uint64_t count(void) { return 0; }

static uint64_t microsecond(void) { return 0; }
#endif

static uint64_t nanoseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Returns the device clock. It is not less than the time stamp of a completion that the program has
 * polled, and not more than the time stamp of one whose work request the program posts afterwards.
 * The engine reads the counter without a fence, which would slow every completion: its processor
 * may read the counter while it still waits for the load in which it finds the work request. Such
 * a load takes less than a microsecond. So the program gets the value a microsecond later, as it
 * would get it from a register of a device. */
static uint64_t device_clock(void) {
	enum { UNKNOWN, COUNTER, MONOTONIC };
	static int kind; /* all threads find the same; on a virtual machine CPUID takes long */
	int known = __atomic_load_n(&kind, __ATOMIC_RELAXED);
	uint64_t now, wait;
	if (known == UNKNOWN) {
		known = countable() ? COUNTER : MONOTONIC;
		__atomic_store_n(&kind, known, __ATOMIC_RELAXED);
	}
	now = known == COUNTER ? count() : nanoseconds();
	wait = known == COUNTER ? microsecond() : 1000;
	while ((known == COUNTER ? count() : nanoseconds()) - now < wait)
		;
	return now;
}

/* Returns 0 or an errno, as libmlx5's function does. */
static int query_rt_values(struct nv_ibv_context *context, struct nv_ibv_values *values) {
	(void)context;
	if (values->comp_mask & ~NV_RAW_CLOCK)
		return EINVAL;
	if (values->comp_mask & NV_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)device_clock(); /* cycles, whatever the name of the field */
	}
	return 0;
}

/* Puts the function in its place. Called when a device was opened. */
void nv_clock_open(struct nv_ibv_context *context) {
	struct nv_verbs_context *v =
	    (struct nv_verbs_context *)((uint8_t *)context - offsetof(struct nv_verbs_context, context));
	if (context->abi_compat == NV_EXTENDED && v->size >= sizeof *v)
		v->query_rt_values = query_rt_values;
}
