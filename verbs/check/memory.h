/* Memory of every kind that a program may register. */
#ifndef NICLESS_CHECK_MEMORY_H
#define NICLESS_CHECK_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum memory_kind {
	MEMORY_MALLOC,
	MEMORY_STACK,  /* stack of the calling thread */
	MEMORY_FILE,   /* a file, mapped shared */
	MEMORY_SYSV,   /* shmget */
	MEMORY_MEMFD,  /* mapped shared */
	MEMORY_SHARED, /* nicless_buffer: shared with the engine from the start */
	MEMORY_KINDS
};

extern const char *const memory_names[MEMORY_KINDS];

struct memory {
	enum memory_kind kind;
	uint8_t *at;
	size_t size;
	void *base; /* what has to be freed */
};

/* Allocates memory. For MEMORY_STACK the caller has set `at` to the memory. */
void memory_take(struct memory *m, enum memory_kind kind, size_t size);
void memory_give(struct memory *m);

#endif
