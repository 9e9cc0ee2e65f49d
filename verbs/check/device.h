/* A queue pair that is connected to itself: a program that wants to see what the device
 * sees at an address reads there through it. */
#ifndef NICLESS_CHECK_DEVICE_H
#define NICLESS_CHECK_DEVICE_H

#include "check.h"

struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *window; /* of memory that the device reads into and writes from */
	uint8_t *bytes;
	size_t size;
};

/* Opens the first device. A transfer moves `size` bytes at most. */
void device_open(struct device *d, size_t size);
void device_close(struct device *d);

/* Each returns the status of the work request. A read stores in d->bytes what the device finds
 * at an address of a memory region, and a write stores d->bytes there. */
enum ibv_wc_status device_read(struct device *d, const struct ibv_mr *mr, const void *at, size_t n);
enum ibv_wc_status device_write(struct device *d, const struct ibv_mr *mr, void *at, size_t n);
enum ibv_wc_status device_add(struct device *d, const struct ibv_mr *mr, void *at, uint64_t value);

#endif
