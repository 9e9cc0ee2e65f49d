/*
 * Tables of functions without names, by which CUDA's static runtime calls the driver. A table is known by its
 * UUID, and a function by its slot. NVIDIA documents neither: docs/design/0073 names the sources.
 */
#include "tables.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SLOTS = 16 };

/* Slot 0 is how many bytes the table has, but for the table that begins with a function. */
union slot {
	size_t bytes;
	void (*call)(void);
};

#define SERVE(f) {.call = (void (*)(void))(f)}
#define BYTES(slots) {.bytes = (slots) * sizeof(union slot)}

static union slot runtime[13] = {
	BYTES(13), SERVE(private_load), SERVE(private_context), [6] = SERVE(private_load_with),
	[7] = SERVE(private_unloading), [8] = SERVE(private_load_container), [12] = SERVE(private_load_compiler),
};
static union slot tools[7] = {BYTES(7), [2] = SERVE(private_subscribed), [6] = SERVE(private_subscribed_too)};
static union slot threads[4] = {BYTES(4)};
static union slot storage[4] = {SERVE(storage_put), SERVE(storage_remove), SERVE(storage_get)};
static union slot states[4] = {BYTES(4), [2] = SERVE(private_state), [3] = SERVE(private_state_of_all)};
static union slot validity[3] = {BYTES(3), SERVE(validity_answer)};

const void *table_of_runtime(void) { return runtime; }
const void *table_of_validity(void) { return validity; }

#define TABLE(slots, ...) {{__VA_ARGS__}, slots, sizeof(slots) / sizeof *(slots)}
static const struct table {
	uint8_t uuid[16];
	union slot *slots;
	int n;
} tables[] = {
	TABLE(runtime, 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
	      0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9),
	TABLE(tools, 0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74,
	      0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66),
	TABLE(threads, 0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47,
	      0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc),
	TABLE(storage, 0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11,
	      0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93),
	TABLE(states, 0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43,
	      0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e),
	TABLE(validity, 0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b,
	      0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2),
};
enum { TABLES = sizeof tables / sizeof *tables };

/* CUDA 13 asks for this table before anything else, and goes on without it. */
static const uint8_t dispensable[16] = {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e,
                                        0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9};

enum { TEXT = 37 }; /* bytes of a UUID as text */

static const char *print(char text[TEXT], const uint8_t uuid[16]) {
	char *to = text;
	for (int k = 0; k < 16; k++)
		to += sprintf(to, "%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", uuid[k]);
	return text;
}

/* The runtime tells its program of an error that says nothing. So this says what was asked for, once. */
static int refuse(int table, int slot) {
	static unsigned char said[TABLES][MOST_SLOTS];
	char text[TEXT];
	if (!__atomic_exchange_n(&said[table][slot], 1, __ATOMIC_RELAXED))
		fprintf(stderr,
		        "nicless: GPU: CUDA's static runtime has called slot %d of the driver's private table %s, "
		        "which emulated GPUs do not serve: error %d; with nvcc -cudart shared nothing calls it\n",
		        slot, print(text, tables[table].uuid), NOT_SUPPORTED);
	return NOT_SUPPORTED;
}

/* One function for each slot, because a function does not learn by which slot it was called. */
#define EACH(f, t) \
	f(t, 0) f(t, 1) f(t, 2) f(t, 3) f(t, 4) f(t, 5) f(t, 6) f(t, 7) \
	f(t, 8) f(t, 9) f(t, 10) f(t, 11) f(t, 12) f(t, 13) f(t, 14) f(t, 15)
#define DEFINE(t, s) static int refuse_##t##_##s(void) { return refuse(t, s); }
#define NAME(t, s) (void (*)(void))refuse_##t##_##s,
EACH(DEFINE, 0)
EACH(DEFINE, 1)
EACH(DEFINE, 2)
EACH(DEFINE, 3)
EACH(DEFINE, 4)
EACH(DEFINE, 5)
static void (*const refusals[TABLES][MOST_SLOTS])(void) = {
	{EACH(NAME, 0)}, {EACH(NAME, 1)}, {EACH(NAME, 2)}, {EACH(NAME, 3)}, {EACH(NAME, 4)}, {EACH(NAME, 5)},
};

static void fill(void) {
	for (int t = 0; t < TABLES; t++)
		for (int s = 0; s < tables[t].n; s++)
			if (!tables[t].slots[s].call)
				tables[t].slots[s].call = refusals[t][s];
}

API CUresult cuGetExportTable(const void **table, const uint8_t *uuid) {
	static pthread_once_t filled = PTHREAD_ONCE_INIT;
	char text[TEXT];
	if (!table || !uuid)
		return INVALID_VALUE;
	pthread_once(&filled, fill);
	*table = NULL;
	for (int t = 0; t < TABLES && !*table; t++)
		if (!memcmp(tables[t].uuid, uuid, sizeof tables[t].uuid))
			*table = tables[t].slots;
	if (*table)
		return OK;
	if (memcmp(dispensable, uuid, sizeof dispensable))
		fprintf(stderr, "nicless: GPU: emulated GPUs do not have the driver's private table %s, for which the "
		        "program has asked: error %d\n", print(text, uuid), NOT_FOUND);
	return NOT_FOUND;
}
