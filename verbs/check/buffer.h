/* A dma-buf with pages of the processor's memory: of udmabuf where the kernel has it, otherwise a memfd that
 * stands for one. */
#ifndef NICLESS_CHECK_BUFFER_H
#define NICLESS_CHECK_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct buffer {
	int fd;       /* to be registered */
	uint8_t *at;  /* where this process has mapped it */
	size_t size;
};

void buffer_make(struct buffer *b, size_t size);
/* Returns "udmabuf" or "memfd". */
const char *buffer_kind(void);
/* Unmaps it and closes the descriptor. */
void buffer_free(struct buffer *b);

#endif
