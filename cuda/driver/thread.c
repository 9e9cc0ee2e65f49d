/*
 * The functions of programs that are compiled with a default stream for each thread. In their calls the
 * stream 0 is the thread's own one. Their names end with _ptsz or, if the caller waits, with _ptds.
 */
#include "driver.h"

struct rows;
struct config;
struct operation;

#define VARIANT(name, suffix, parameters, arguments) \
	API CUresult name parameters; \
	API CUresult name##suffix parameters { \
		int error; \
		gpu_set_own_stream(1); \
		error = name arguments; \
		gpu_set_own_stream(0); \
		return error; \
	}
#define ASYNC(name, parameters, arguments) VARIANT(name, _ptsz, parameters, arguments)
#define SYNC(name, parameters, arguments) VARIANT(name, _ptds, parameters, arguments)

typedef CUdeviceptr at;

SYNC(cuMemcpy, (at to, at from, size_t n), (to, from, n))
SYNC(cuMemcpyHtoD_v2, (at to, const void *from, size_t n), (to, from, n))
SYNC(cuMemcpyDtoH_v2, (void *to, at from, size_t n), (to, from, n))
SYNC(cuMemcpyDtoD_v2, (at to, at from, size_t n), (to, from, n))
SYNC(cuMemcpyPeer, (at to, CUcontext there, at from, CUcontext here, size_t n), (to, there, from, here, n))
SYNC(cuMemcpy2D_v2, (const struct rows *r), (r))
SYNC(cuMemcpy2DUnaligned_v2, (const struct rows *r), (r))
SYNC(cuMemsetD8_v2, (at to, unsigned char v, size_t n), (to, v, n))
SYNC(cuMemsetD16_v2, (at to, unsigned short v, size_t n), (to, v, n))
SYNC(cuMemsetD32_v2, (at to, unsigned v, size_t n), (to, v, n))
SYNC(cuMemsetD2D8_v2, (at to, size_t pitch, unsigned char v, size_t w, size_t h), (to, pitch, v, w, h))
SYNC(cuMemsetD2D16_v2, (at to, size_t pitch, unsigned short v, size_t w, size_t h), (to, pitch, v, w, h))
SYNC(cuMemsetD2D32_v2, (at to, size_t pitch, unsigned v, size_t w, size_t h), (to, pitch, v, w, h))

ASYNC(cuMemcpyAsync, (at to, at from, size_t n, CUstream s), (to, from, n, s))
ASYNC(cuMemcpyHtoDAsync_v2, (at to, const void *from, size_t n, CUstream s), (to, from, n, s))
ASYNC(cuMemcpyDtoHAsync_v2, (void *to, at from, size_t n, CUstream s), (to, from, n, s))
ASYNC(cuMemcpyDtoDAsync_v2, (at to, at from, size_t n, CUstream s), (to, from, n, s))
ASYNC(cuMemcpyPeerAsync, (at to, CUcontext there, at from, CUcontext here, size_t n, CUstream s),
      (to, there, from, here, n, s))
ASYNC(cuMemcpy2DAsync_v2, (const struct rows *r, CUstream s), (r, s))
ASYNC(cuMemsetD8Async, (at to, unsigned char v, size_t n, CUstream s), (to, v, n, s))
ASYNC(cuMemsetD16Async, (at to, unsigned short v, size_t n, CUstream s), (to, v, n, s))
ASYNC(cuMemsetD32Async, (at to, unsigned v, size_t n, CUstream s), (to, v, n, s))
ASYNC(cuMemsetD2D8Async, (at to, size_t pitch, unsigned char v, size_t w, size_t h, CUstream s), (to, pitch,
                                                                                                  v, w, h, s))
ASYNC(cuMemsetD2D16Async, (at to, size_t pitch, unsigned short v, size_t w, size_t h, CUstream s),
      (to, pitch, v, w, h, s))
ASYNC(cuMemsetD2D32Async, (at to, size_t pitch, unsigned v, size_t w, size_t h, CUstream s), (to, pitch, v, w,
                                                                                              h, s))

ASYNC(cuMemAllocAsync, (at *to, size_t n, CUstream s), (to, n, s))
ASYNC(cuMemFreeAsync, (at from, CUstream s), (from, s))

ASYNC(cuStreamGetPriority, (CUstream s, int *priority), (s, priority))
ASYNC(cuStreamGetFlags, (CUstream s, unsigned *flags), (s, flags))
ASYNC(cuStreamGetCtx, (CUstream s, CUcontext *c), (s, c))
ASYNC(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), (s, e, flags))
ASYNC(cuStreamQuery, (CUstream s), (s))
ASYNC(cuStreamSynchronize, (CUstream s), (s))
ASYNC(cuStreamWriteValue32_v2, (CUstream s, at to, uint32_t v, unsigned flags), (s, to, v, flags))
ASYNC(cuStreamWriteValue64_v2, (CUstream s, at to, uint64_t v, unsigned flags), (s, to, v, flags))
ASYNC(cuStreamWaitValue32_v2, (CUstream s, at to, uint32_t v, unsigned flags), (s, to, v, flags))
ASYNC(cuStreamWaitValue64_v2, (CUstream s, at to, uint64_t v, unsigned flags), (s, to, v, flags))
ASYNC(cuStreamBatchMemOp_v2, (CUstream s, unsigned n, const struct operation *all, unsigned flags),
      (s, n, all, flags))
ASYNC(cuEventRecord, (CUevent e, CUstream s), (e, s))
ASYNC(cuEventRecordWithFlags, (CUevent e, CUstream s, unsigned flags), (e, s, flags))

ASYNC(cuLaunchKernel, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared, CUstream s, void **args, void **extra),
      (f, gx, gy, gz, bx, by, bz, shared, s, args, extra))
ASYNC(cuLaunchCooperativeKernel, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                  unsigned by, unsigned bz, unsigned shared, CUstream s, void **args),
      (f, gx, gy, gz, bx, by, bz, shared, s, args))
ASYNC(cuLaunchKernelEx, (const struct config *c, CUfunction f, void **args, void **extra), (c, f, args,
                                                                                            extra))
ASYNC(cuStreamAddCallback, (CUstream s, void (*f)(CUstream, int, void *), void *with, unsigned flags),
      (s, f, with, flags))
ASYNC(cuLaunchHostFunc, (CUstream s, void (*f)(void *), void *with), (s, f, with))
