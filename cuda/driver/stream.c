/* Streams, events, and what streams store and wait for. */
#include "driver.h"

API CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int priority) {
	return BOUND(gpu_stream_new(HERE, flags, priority, s));
}

API CUresult cuStreamCreate(CUstream *s, unsigned flags) { return cuStreamCreateWithPriority(s, flags, 0); }
API CUresult cuStreamDestroy_v2(CUstream s) { return BOUND(gpu_stream_destroy(HERE, s)); }
API CUresult cuStreamQuery(CUstream s) { return BOUND(gpu_stream_query(HERE, s)); }
API CUresult cuStreamSynchronize(CUstream s) { return BOUND(gpu_stream_synchronize(HERE, s)); }

API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
	(void)flags;
	return BOUND(gpu_stream_wait(HERE, s, e));
}

API CUresult cuStreamGetFlags(CUstream s, unsigned *flags) {
	int priority;
	return BOUND(gpu_stream_flags(HERE, s, flags, &priority));
}

API CUresult cuStreamGetPriority(CUstream s, int *priority) {
	unsigned flags;
	return BOUND(gpu_stream_flags(HERE, s, &flags, priority));
}

API CUresult cuCtxGetCurrent(CUcontext *c);
API CUresult cuStreamGetCtx(CUstream s, CUcontext *c) {
	unsigned flags;
	int priority, error = BOUND(gpu_stream_flags(HERE, s, &flags, &priority));
	return error ? error : cuCtxGetCurrent(c);
}

/* Nothing can be captured, so nothing ever is. */
static int not_captured(int *status) {
	*status = 0;
	return OK;
}

API CUresult cuStreamIsCapturing(CUstream s, int *status) { (void)s; return BOUND(not_captured(status)); }
API CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
	(void)s; (void)mode;
	return BOUND(NOT_SUPPORTED);
}
API CUresult cuStreamGetCaptureInfo_v2(CUstream s, int *status) {
	(void)s;
	return BOUND(not_captured(status));
}
API CUresult cuStreamGetCaptureInfo_v3(CUstream s, int *status) {
	(void)s;
	return BOUND(not_captured(status));
}
API CUresult cuThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return STARTED(OK); }

API CUresult cuEventCreate(CUevent *e, unsigned flags) { return BOUND(gpu_event_new(HERE, flags, e)); }
API CUresult cuEventDestroy_v2(CUevent e) { return STARTED(gpu_event_destroy(e)); }
API CUresult cuEventRecord(CUevent e, CUstream s) { return BOUND(gpu_event_record(e, HERE, s)); }
API CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags) {
	(void)flags;
	return cuEventRecord(e, s);
}
API CUresult cuEventQuery(CUevent e) { return STARTED(gpu_event_query(e)); }
API CUresult cuEventSynchronize(CUevent e) { return STARTED(gpu_event_synchronize(e)); }
API CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
	return STARTED(gpu_event_elapsed(begin, end, ms));
}
API CUresult cuEventElapsedTime_v2(float *ms, CUevent begin, CUevent end) {
	return cuEventElapsedTime(ms, begin, end);
}

/* Bit 30 of the flags of a wait asks for a flush of remote writes, of which none is ever late here. */
enum { FLUSH = 1 << 30 };

static int write_value(CUstream s, CUdeviceptr at, uint64_t v, int wide) {
	return gpu_write_value(HERE, s, to_pointer(at), v, wide);
}

static int wait_value(CUstream s, CUdeviceptr at, uint64_t v, int wide, unsigned flags) {
	return gpu_wait_value(HERE, s, to_pointer(at), v, wide, flags & ~(unsigned)FLUSH);
}

API CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr at, uint32_t v, unsigned flags) {
	(void)flags;
	return BOUND(write_value(s, at, v, 0));
}

API CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr at, uint64_t v, unsigned flags) {
	(void)flags;
	return BOUND(write_value(s, at, v, 1));
}

API CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr at, uint32_t v, unsigned flags) {
	return BOUND(wait_value(s, at, v, 0, flags));
}

API CUresult cuStreamWaitValue64_v2(CUstream s, CUdeviceptr at, uint64_t v, unsigned flags) {
	return BOUND(wait_value(s, at, v, 1, flags));
}

/* union CUstreamBatchMemOpParams: 1 wait 32, 2 write 32, 3 flush, 4 wait 64, 5 write 64, 6 barrier. */
struct operation {
	int what, pad;
	CUdeviceptr at;
	uint64_t value;
	unsigned flags;
	char rest[20];
};

static int batch(CUstream s, unsigned n, const struct operation *all) {
	int error = OK;
	for (unsigned k = 0; k < n && !error; k++) {
		const struct operation *o = &all[k];
		switch (o->what) {
		case 1: error = wait_value(s, o->at, (uint32_t)o->value, 0, o->flags); break;
		case 2: error = write_value(s, o->at, (uint32_t)o->value, 0); break;
		case 3: case 6: break;
		case 4: error = wait_value(s, o->at, o->value, 1, o->flags); break;
		case 5: error = write_value(s, o->at, o->value, 1); break;
		default: error = INVALID_VALUE;
		}
	}
	return error;
}

API CUresult cuStreamBatchMemOp_v2(CUstream s, unsigned n, const struct operation *all, unsigned flags) {
	return flags ? INVALID_VALUE : BOUND(batch(s, n, all));
}
