/*
 * The functions of the driver's private tables (tables.c). They return codes of CUDA's driver, and any thread
 * may call them. Parameters whose meaning is not known are not used.
 */
#ifndef NICLESS_CUDA_TABLES_H
#define NICLESS_CUDA_TABLES_H

#include "driver.h"

/* The struct that compilers put beside a fat binary. */
struct wrapper;

/* Load a fat binary. The last three parameters ask for something unknown: NOT_SUPPORTED if one is not 0. */
int private_load(CUmodule *module, const struct wrapper *w);
int private_load_with(CUmodule *module, const struct wrapper *w, void *a, void *b, unsigned c);
int private_load_container(const void *container, CUmodule *module, void *a, void *b, unsigned c);

/* The runtime is about to unload a fat binary. */
void private_unloading(const struct wrapper *w);

/* The compiler of PTX shall be there, and always is. */
int private_load_compiler(void);

/* Stores the context of a device, which need not be active. */
int private_context(CUcontext *c, CUdevice device);

/* Store which functions of the runtime a tool wants to hear of: size entries, all zero. */
void private_subscribed(void **entries, size_t *size);
void private_subscribed_too(void **entries, size_t *size);

/* Store and return what is wrong with a context, and with all: 0, nothing. */
int private_state(CUcontext c, uint32_t *wrong, void **more);
uint32_t private_state_of_all(void);

/* Called when a context ends, with a key and its value. */
typedef void (*ended)(CUcontext c, void *key, void *value);

/* Keep, forget and look up a value of a context; NULL is the thread's. INVALID_HANDLE: the key has none. */
int storage_put(CUcontext c, void *key, void *value, ended end);
int storage_remove(CUcontext c, void *key);
int storage_get(void **value, CUcontext c, void *key);

/* Forgets all values of a context, which ends, and tells those who kept them. */
void storage_end(CUcontext c);

/* Answers the runtime's test of the driver (validity.c). */
int validity_answer(uint32_t version, uint64_t seconds, uint8_t answer[16]);

/* The tables, of which the test's answer has the addresses. */
const void *table_of_runtime(void);
const void *table_of_validity(void);

#endif
