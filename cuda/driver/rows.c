/* Copies of rows, and stores into rows, that do not lie one behind the other. */
#include "driver.h"

enum { HOST = 1, DEVICE = 2, UNIFIED = 4 }; /* enum CUmemorytype; 3 is an array */

/* One side of struct CUDA_MEMCPY2D. */
struct side {
	size_t x, y; /* x in bytes */
	int type;
	const void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};

struct rows {
	struct side from, to;
	size_t width, height;
};

/* Stores the address of the first row. A pitch of 0 is that of rows without a gap. */
static int first(uint64_t *at, size_t *pitch, const struct side *s, size_t width) {
	if (s->type != HOST && s->type != DEVICE && s->type != UNIFIED)
		return NOT_SUPPORTED;
	*pitch = s->pitch ? s->pitch : width;
	if (s->x > *pitch || width > *pitch - s->x)
		return INVALID_VALUE;
	*at = (s->type == HOST ? to_address(s->host) : s->device) + s->y * *pitch + s->x;
	return OK;
}

/* The direction of a copy, as gpu_copy knows it. */
static int direction(const struct rows *r) {
	if (r->from.type == UNIFIED || r->to.type == UNIFIED)
		return 4;
	return (r->to.type == DEVICE) + 2 * (r->from.type == DEVICE);
}

static int copy(const struct rows *r, CUstream s) {
	uint64_t from, to;
	size_t from_pitch, to_pitch;
	int error = r ? first(&from, &from_pitch, &r->from, r->width) : INVALID_VALUE;
	if (error || (error = first(&to, &to_pitch, &r->to, r->width)))
		return error;
	for (size_t y = 0; y < r->height && !error; y++)
		error = gpu_copy(HERE, s, to_pointer(to + y * to_pitch), to_pointer(from + y * from_pitch), r->width,
		                 direction(r));
	return error;
}

static int wait(int error) { return error ? error : gpu_stream_synchronize(HERE, 0); }

API CUresult cuMemcpy2DAsync_v2(const struct rows *r, CUstream s) { return BOUND(copy(r, s)); }
API CUresult cuMemcpy2D_v2(const struct rows *r) { return BOUND(wait(copy(r, 0))); }
API CUresult cuMemcpy2DUnaligned_v2(const struct rows *r) { return cuMemcpy2D_v2(r); }

/* Width is in elements. */
static int set(CUdeviceptr to, size_t pitch, unsigned v, unsigned size, size_t width, size_t height,
               CUstream s) {
	int error = height > 1 && (pitch % size || width > pitch / size) ? INVALID_VALUE : OK;
	for (size_t y = 0; y < height && !error; y++)
		error = gpu_set(HERE, s, to_pointer(to + y * pitch), v, size, width);
	return error;
}

#define SET(bits, type) \
	API CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type v, size_t width, size_t height, \
	                                      CUstream s) { \
		return BOUND(set(to, pitch, v, sizeof v, width, height, s)); \
	} \
	API CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type v, size_t width, size_t height) { \
		return BOUND(wait(set(to, pitch, v, sizeof v, width, height, 0))); \
	}
SET(8, unsigned char)
SET(16, unsigned short)
SET(32, unsigned)
