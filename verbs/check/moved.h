/* Functions that the cells of moved.c share. */
#ifndef NICLESS_CHECK_MOVED_H
#define NICLESS_CHECK_MOVED_H

#include "device.h"

#include <stdbool.h>

extern struct device dev;
extern bool fast; /* registered memory is moved where that is possible; else the kernel copies */

enum {
	PAGE = 4096,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
};

uint8_t *take(size_t size);                              /* private memory, from mmap */
struct ibv_mr *reg(void *at, size_t size);               /* registers memory with all rights */
/* The device finds a pattern there. */
void sees(const struct ibv_mr *mr, const void *at, uint64_t seed, size_t first, size_t n);
bool is_moved(const void *at);                           /* whether the page is in memory of nicless */
/* A number in a file of /proc/self; at: in the mapping at this address. */
unsigned long kib(const char *file, const void *at, const char *field);
void join(int pid);                                      /* waits for a child, which has to succeed */

void forks(void);      /* cells of moved_fork.c */
void heaps(void);      /* the cell of moved_heap.c */
void mappings(void);   /* cells of moved_map.c */
void limits(void);     /* cells of moved_limit.c */

void cell(const char *name); /* begins a cell */

#endif
